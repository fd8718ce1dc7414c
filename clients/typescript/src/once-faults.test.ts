import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { errorAnswer, type Fault, FaultyFetch } from '../../../test/support/clients/faulty-fetch.ts'
import {
  Latchkey,
  type LatchkeyOptions,
  type LatchkeyRequestError,
  nothingHappened,
  unwrap,
  type WorkContext,
} from './index.ts'

let api: TestApi
beforeAll(async () => {
  api = await startTestApi()
})
afterAll(() => api.close())

interface Caller {
  readonly latchkey: Latchkey
  readonly faults: FaultyFetch
  readonly address: { readonly scope: string; readonly key: string }
  readonly events: { readonly event: string; readonly fields: Readonly<Record<string, unknown>> }[]
  /** Resolves with the next debug event of this text. */
  next(event: string): Promise<unknown>
}

/** Returns a client behind a faulty network, and a key that no other test uses. */
function caller(options: Partial<LatchkeyOptions> = {}): Caller {
  const faults = new FaultyFetch()
  const events: Caller['events'] = []
  const waiting: { event: string; resolve: (fields: unknown) => void }[] = []
  const debug = (event: string, fields: Readonly<Record<string, unknown>>) => {
    events.push({ event, fields })
    for (const each of waiting.filter((one) => one.event === event)) each.resolve(fields)
  }
  const next = (event: string) => new Promise((resolve) => waiting.push({ event, resolve }))
  const latchkey = new Latchkey({ url: api.url, apiKey: testApiKey, fetch: faults.fetch, debug, ...options })
  return { latchkey, faults, events, next, address: { scope: 'once faults', key: crypto.randomUUID() } }
}

const check = 'POST /v1/record'
const save = 'PUT /v1/record'
const extend = 'POST /v1/record/extend'
const release = 'DELETE /v1/record'

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason)
    signal.addEventListener('abort', () => resolve(signal.reason))
  })
}

const html = (status: number) => () => new Response('<html>bad gateway</html>', { status })
const transient: [string, Fault][] = [
  ['the call is lost', 'call lost'],
  ['the answer is lost', 'answer lost'],
  ['503 overloaded', () => errorAnswer(503, 'overloaded')],
  ['503 body_dropped', () => errorAnswer(503, 'body_dropped')],
  ['500 internal', () => errorAnswer(500, 'internal')],
  ['502 of a proxy', html(502)],
  ['200 that is not JSON', html(200)],
  ['200 with another document', () => Response.json({ hello: 'world' })],
  ['200 without a body', () => new Response(null)],
]

describe.each(transient)('once: %s', (_name, fault) => {
  test.each([
    ['twice at the acquisition', check],
    ['twice at the save', save],
  ] as const)('once: runs the work once and saves its result, with a fault %s', async (_when, name) => {
    const { latchkey, faults, address } = caller()
    faults.fail(name, fault, 2)
    let runs = 0
    const outcome = await latchkey.once(address, () => (runs += 1))
    expect(outcome).toEqual({ kind: 'ran', value: 1, guarded: true })
    expect(faults.calls.filter((each) => each === name)).toHaveLength(3)
    expect(await latchkey.once(address, () => (runs += 1))).toEqual({ kind: 'replayed', value: 1 })
  })
})

test.each(transient.filter((_each, at) => at % 4 === 0))(
  'once: keeps the lock if its extension fails twice: %s',
  async (_name, fault) => {
    const { latchkey, faults, address, next } = caller()
    faults.fail(extend, fault, 2)
    const outcome = await latchkey.once({ ...address, lockSeconds: 2 }, async ({ signal }) => {
      await next('lock extended')
      return signal.aborted
    })
    expect(outcome).toEqual({ kind: 'ran', value: false, guarded: true })
    expect(faults.calls.filter((each) => each === extend)).toHaveLength(3)
  },
)

test.each([
  ['no connection', 'call lost', 'unreachable', 1000],
  ['a proxy without a backend', html(504), 'unreachable', 1000],
  [
    '503 overloaded with Retry-After',
    () => errorAnswer(503, 'overloaded', { 'Retry-After': '7' }),
    'overloaded',
    7000,
  ],
  ['503 body_dropped', () => errorAnswer(503, 'body_dropped'), 'overloaded', 1000],
  ['503 store_unavailable', () => errorAnswer(503, 'store_unavailable'), 'store_unavailable', 1000],
  ['503 starting', () => errorAnswer(503, 'starting'), 'store_unavailable', 1000],
] as const)(
  'once: returns `unavailable` within `acquireMs` and does not run the work: %s',
  async (_name, fault, reason, retryAfterMs) => {
    const { latchkey, faults, address } = caller()
    faults.fail(check, fault, 100)
    const startedAtMs = performance.now()
    const outcome: unknown = await latchkey.once({ ...address, acquireMs: 300 }, () => expect.unreachable())
    expect(outcome).toMatchObject({ kind: 'unavailable', reason, retryAfterMs })
    expect(performance.now() - startedAtMs).toBeLessThan(1000)
    expect(faults.calls.length).toBeLessThan(12)
  },
)

test('once: without a response, both the outcome and its error have the exception of `fetch` as their cause', async () => {
  const { latchkey, faults, address } = caller()
  faults.fail(check, 'call lost')
  const outcome = await latchkey.once({ ...address, acquireMs: 0 }, () => 1)
  expect(outcome).toMatchObject({ reason: 'unreachable', cause: new TypeError('connection refused') })
  expect(() => unwrap(outcome)).toThrow(
    expect.objectContaining({ cause: new TypeError('connection refused') }),
  )
})

test('once: a call without a response ends after the sum of `waitMs` and `acquireMs`', async () => {
  const { latchkey, faults, address } = caller()
  faults.fail(check, 'no answer', 100)
  const startedAtMs = performance.now()
  const bounds = { waitMs: 200, acquireMs: 200 }
  const outcome = await latchkey.once({ ...address, ...bounds }, () => expect.unreachable())
  expect(outcome).toMatchObject({ kind: 'unavailable', reason: 'unreachable' })
  expect(performance.now() - startedAtMs).toBeLessThan(1500)
})

test('once: repeats an acquisition only after the time of Retry-After', async () => {
  const { latchkey, faults, address, events } = caller()
  faults.fail(check, () => errorAnswer(503, 'overloaded', { 'Retry-After': '1' }))
  expect(await latchkey.once(address, () => 1)).toMatchObject({ kind: 'ran' })
  const { fields } = events.find(({ event }) => event === 'acquisition repeated') ?? {}
  expect(fields).toMatchObject({ code: 'overloaded' })
  expect(Number(fields?.['pauseMs'])).toBeGreaterThan(1000)
})

test('once: does not repeat an acquisition that exceeds a usage limit', async () => {
  const { latchkey, faults, address } = caller()
  faults.fail(check, () => errorAnswer(429, 'limit_exceeded', { 'Retry-After': '30' }))
  const outcome: unknown = await latchkey.once(address, () => expect.unreachable())
  expect(outcome).toEqual({ kind: 'unavailable', reason: 'limit_exceeded', retryAfterMs: 30_000 })
  expect(faults.calls).toEqual([check])
})

test("once: `onUnavailable: 'run'` runs the work without a lock, and saves nothing", async () => {
  const { latchkey, faults, address } = caller()
  faults.fail(check, 'call lost', 100)
  const options = { ...address, acquireMs: 100, onUnavailable: 'run' } as const
  expect(await latchkey.once(options, ({ fence }) => typeof fence)).toEqual({
    kind: 'ran',
    value: 'undefined',
    guarded: false,
  })
  expect(faults.calls).not.toContain(save)
})

test('once: work without a lock removes the mark of `nothingHappened` before an outer operation gets the error', async () => {
  const { latchkey, faults, address } = caller()
  const inner = { ...address, key: crypto.randomUUID(), acquireMs: 100, onUnavailable: 'run' } as const
  const outcome = latchkey.once(address, () => {
    faults.fail(check, 'call lost', 100)
    return latchkey.once(inner, () => {
      throw nothingHappened(new Error('declined'))
    })
  })
  await expect(outcome).rejects.toThrow('declined')
  faults.recover()
  expect(await latchkey.once<unknown>(address, () => 1)).toEqual({ kind: 'taken_over', phase: 'before' })
})

test('once: an exception thrown by the `debug` callback changes nothing', async () => {
  const debug = () => {
    throw new Error('the log is full')
  }
  const { latchkey, faults, address } = caller({ debug })
  faults.fail(check, 'call lost')
  faults.fail(save, 'call lost')
  faults.fail(extend, 'call lost', 100)
  const outcome = await latchkey.once({ ...address, lockSeconds: 1 }, ({ signal }) =>
    aborted(signal).then(() => 1),
  )
  expect(outcome).toEqual({ kind: 'ran', value: 1, guarded: true })
})

test('once: `acquireMs` 0 and `saveMs` 0 each allow one call with the normal call timeout', async () => {
  const { latchkey, faults, address } = caller()
  const bounds = { acquireMs: 0, saveMs: 0 }
  expect(await latchkey.once({ ...address, ...bounds }, () => 1)).toMatchObject({ kind: 'ran' })
  faults.fail(check, 'call lost')
  expect(await latchkey.once({ ...address, ...bounds }, () => 1)).toMatchObject({ kind: 'unavailable' })
  expect(faults.calls).toEqual([check, save, check])
})

test.each([
  ['waitMs', -1],
  ['waitMs', Number.NaN],
  ['acquireMs', -1],
  ['saveMs', Number.NaN],
  ['lockSeconds', Number.NaN],
  ['locksSeconds', 60],
  ['constructor', 1],
])('once: refuses the option %s: %d', async (name, value) => {
  const { latchkey, faults, address } = caller()
  await expect(latchkey.once({ ...address, [name]: value }, () => 1)).rejects.toBeInstanceOf(TypeError)
  expect(faults.calls).toEqual([])
})

const mebibyte = 1024 * 1024
test.each([
  [
    'an unknown API key',
    { apiKey: 'lk_unknown_0123456789abcdef0123456789' },
    {},
    undefined,
    403,
    'api_key_invalid',
  ],
  ['an invalid scope', {}, { scope: '' }, undefined, 400, 'invalid_request'],
  ['an invalid lockSeconds', {}, { lockSeconds: 901 }, undefined, 400, 'invalid_request'],
  ['a proxy that does not know the path', {}, {}, html(404), 404, 'http_404'],
  ['a redirect', {}, {}, () => Response.redirect('https://example.com/', 302), 302, 'http_302'],
  ['an answer over 1 MiB', {}, {}, () => new Response('x'.repeat(mebibyte + 1)), 200, 'answer_too_long'],
  ['an endless answer', {}, {}, () => new Response(endless()), 200, 'answer_too_long'],
] as const)(
  'once: rejects a call that can never succeed, without a retry: %s',
  async (_name, of, more, fault, status, code) => {
    const { latchkey, faults, address } = caller(of)
    if (fault) faults.fail(check, fault)
    const error = await latchkey
      .once({ ...address, ...more }, () => expect.unreachable())
      .then(
        () => undefined,
        (thrown: LatchkeyRequestError) => thrown,
      )
    expect(error).toMatchObject({ name: 'LatchkeyRequestError', status, code })
    expect(error?.message).not.toMatch(/lk_\w/)
    expect(faults.calls).toEqual([check])
  },
)

function endless(): ReadableStream<Uint8Array> {
  return new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536).fill(32)) })
}

describe('once: lock lost while the work runs', () => {
  test('once, lost lock: the signal aborts when the service reports the loss', async () => {
    const { latchkey, faults, address } = caller()
    const outcome: unknown = await latchkey.once({ ...address, lockSeconds: 1 }, async ({ signal }) => {
      const query = new URLSearchParams({ ...address, lockToken: faults.lockToken })
      await api.call('DELETE', `/v1/record?${query}`)
      throw await aborted(signal)
    })
    expect(outcome).toEqual({ kind: 'taken_over', phase: 'during' })
    expect(faults.calls).toEqual([check, extend])
  })

  test('once, lost lock: the signal aborts when the lock expires without an extension, and the result is saved unless another caller took over', async () => {
    const { latchkey, faults, address } = caller()
    faults.fail(extend, 'call lost', 100)
    const startedAtMs = performance.now()
    const outcome = await latchkey.once({ ...address, lockSeconds: 1 }, async ({ signal }) => {
      expect(await aborted(signal)).toMatchObject({ outcome: { kind: 'taken_over', phase: 'during' } })
      return 'late'
    })
    expect(performance.now() - startedAtMs).toBeGreaterThan(900)
    expect(outcome).toEqual({ kind: 'ran', value: 'late', guarded: true })
  })

  test('once, lost lock: an exception caused by the signal results in `taken_over`, and the lock is shortened', async () => {
    const { latchkey, faults, address } = caller()
    faults.fail(extend, 'call lost', 100)
    const outcome: unknown = await latchkey.once({ ...address, lockSeconds: 1 }, async ({ signal }) => {
      const reason = await aborted(signal)
      faults.recover()
      throw new Error('aborted', { cause: reason })
    })
    expect(outcome).toEqual({ kind: 'taken_over', phase: 'during' })
    expect(faults.calls.at(-1)).toBe(extend)
  })

  test('once, lost lock: an exception is thrown within two seconds, even while an extension gets no response', async () => {
    const { latchkey, faults, address } = caller()
    faults.fail(extend, 'no answer', 100)
    const own = new Error('own')
    let thrownAtMs = 0
    const outcome = latchkey.once({ ...address, lockSeconds: 3 }, async () => {
      while (!faults.calls.includes(extend)) await Bun.sleep(50)
      thrownAtMs = performance.now()
      throw own
    })
    expect(await outcome.catch((error: unknown) => error)).toBe(own)
    expect(performance.now() - thrownAtMs).toBeLessThan(2500)
  })

  test('once, lost lock: the work does not run if the lock is lost while `onTakenOver` looks for the effect', async () => {
    const { latchkey, faults, address } = caller()
    await expect(latchkey.once(address, () => Promise.reject(new Error('lost')))).rejects.toThrow('lost')
    const onTakenOver = async ({ signal }: WorkContext) => {
      const query = new URLSearchParams({ ...address, lockToken: faults.lockToken })
      await api.call('DELETE', `/v1/record?${query}`)
      await aborted(signal)
      return 'run' as const
    }
    const outcome: unknown = await latchkey.once({ ...address, lockSeconds: 1, onTakenOver }, () =>
      expect.unreachable(),
    )
    expect(outcome).toEqual({ kind: 'taken_over', phase: 'before' })
  })

  test('once, lost lock: an exception not caused by the signal is thrown unchanged', async () => {
    const { latchkey, faults, address } = caller()
    faults.fail(extend, 'call lost', 100)
    const own = new Error('own')
    const outcome = latchkey.once({ ...address, lockSeconds: 1 }, async ({ signal }) => {
      await aborted(signal)
      throw own
    })
    await expect(outcome).rejects.toBe(own)
  })

  test('once, lost lock: a result is refused after another caller took over and saved its result', async () => {
    const { latchkey, faults, address } = caller()
    faults.fail(extend, 'call lost', 100)
    const outcome: unknown = await latchkey.once({ ...address, lockSeconds: 1 }, async ({ signal }) => {
      await aborted(signal)
      const other = await caller().latchkey.once(
        { ...address, onTakenOver: 'run' },
        ({ takenOver }) => takenOver,
      )
      expect(other).toEqual({ kind: 'ran', value: true, guarded: true })
      return 'late'
    })
    expect(outcome).toEqual({ kind: 'taken_over', phase: 'during' })
    expect(await latchkey.once<unknown>(address, () => 'never')).toEqual({ kind: 'replayed', value: true })
  })

  test('once, lost lock: a change of the wall clock does not abort the signal', async () => {
    const { latchkey, address, next } = caller()
    const now = Date.now
    try {
      const outcome = await latchkey.once({ ...address, lockSeconds: 1 }, async ({ signal }) => {
        Date.now = () => now() + 3_600_000
        await next('lock extended')
        Date.now = () => now() - 3_600_000
        await next('lock extended')
        return signal.aborted
      })
      expect(outcome).toMatchObject({ kind: 'ran', value: false })
    } finally {
      Date.now = now
    }
  })
})

describe('once: save', () => {
  test('once, save: a conflict with a record that another program saved results in `taken_over`', async () => {
    const { latchkey, address } = caller()
    const outcome: unknown = await latchkey.once(address, async () => {
      await api.call('PUT', '/v1/record', { ...address, status: 200, body: 'of another program' })
      return 'own'
    })
    expect(outcome).toEqual({ kind: 'taken_over', phase: 'during' })
  })

  test('once, save: a result that is too large gives the outcome `unknown` with the reason', async () => {
    const { latchkey, address } = caller()
    const outcome = await latchkey.once(address, () => 'x'.repeat(300_000))
    expect(outcome).toMatchObject({ kind: 'unknown', reason: 'refused', code: 'invalid_request' })
  })

  test('once, save: without a response the outcome is `unknown`, and `complete` can save the result later, any number of times', async () => {
    const { latchkey, faults, address } = caller()
    faults.fail(save, 'call lost', 100)
    const outcome = await latchkey.once({ ...address, saveMs: 100, ttlSeconds: 600 }, () => ({ id: 1 }))
    if (outcome.kind !== 'unknown') throw new Error(outcome.kind)
    expect(outcome).toMatchObject({ reason: 'no_answer', value: { id: 1 } })
    const pending = JSON.parse(JSON.stringify(outcome.pending)) as typeof outcome.pending
    expect(await latchkey.complete(pending, { saveMs: 50 })).toMatchObject({ kind: 'unknown' })
    faults.recover()
    for (let n = 0; n < 2; n += 1)
      expect(await latchkey.complete(pending)).toEqual({ kind: 'ran', value: { id: 1 }, guarded: true })
    expect(await latchkey.fetchRecord(address)).toEqual({ status: 200, headers: {}, body: { id: 1 } })
  })

  test('once, save: `complete` returns `taken_over` after another caller has saved a result', async () => {
    const { latchkey, faults, address } = caller()
    faults.fail(save, 'call lost', 100)
    faults.fail(extend, 'call lost', 100)
    const outcome = await latchkey.once({ ...address, lockSeconds: 1, saveMs: 100 }, () => 'first')
    if (outcome.kind !== 'unknown') throw new Error(outcome.kind)
    faults.recover()
    await latchkey.once({ ...address, onTakenOver: 'run' }, () => 'second')
    const completed: unknown = await latchkey.complete(outcome.pending)
    expect(completed).toEqual({ kind: 'taken_over', phase: 'during' })
  })

  test('once, save: the lock is extended while the save is repeated', async () => {
    const { latchkey, faults, address, next } = caller()
    faults.fail(save, 'call lost', 100)
    void next('lock extended').then(() => faults.recover())
    const outcome = await latchkey.once({ ...address, lockSeconds: 1 }, () => 1)
    expect(outcome).toMatchObject({ kind: 'ran' })
    expect(faults.calls).toContain(extend)
  })
})

describe("once: the caller's signal", () => {
  test('once, signal aborted before the call: nothing is sent', async () => {
    const { latchkey, faults, address } = caller()
    const signal = AbortSignal.abort(new Error('gone'))
    await expect(latchkey.once({ ...address, signal }, () => 1)).rejects.toThrow('gone')
    expect(faults.calls).toEqual([])
  })

  test('once, signal aborted before the response with the lock arrives: the lock is released', async () => {
    const { latchkey, faults, address } = caller()
    faults.fail(check, 'no answer')
    const controller = new AbortController()
    const outcome = latchkey.once({ ...address, signal: controller.signal }, () => 1)
    while (faults.lockToken === '') await new Promise((resolve) => setImmediate(resolve))
    controller.abort(new Error('gone'))
    await expect(outcome).rejects.toThrow('gone')
    expect(faults.calls).toEqual([check, check, release])
    expect(await latchkey.once({ ...address, waitMs: 0 }, ({ takenOver }) => takenOver)).toMatchObject({
      kind: 'ran',
      value: false,
    })
  })

  test('once, signal aborted just after the response with the lock was read: the lock is released', async () => {
    const controller = new AbortController()
    const faults = new FaultyFetch()
    const fetch = async (url: string, init: RequestInit) => {
      const text = await (await faults.fetch(url, init)).text()
      controller.abort(new Error('gone'))
      return new Response(text, { headers: { 'Content-Length': String(text.length) } })
    }
    const { latchkey, address } = caller({ fetch })
    await expect(latchkey.once({ ...address, signal: controller.signal }, () => 1)).rejects.toThrow('gone')
    expect(faults.calls).toEqual([check, check, release])
  })

  test('once, signal aborted while the call waits for a busy key: the call rejects immediately', async () => {
    const { latchkey, address } = caller()
    const controller = new AbortController()
    await latchkey.once(address, async () => {
      const waiting = caller().latchkey.once({ ...address, signal: controller.signal }, () => 1)
      const startedAtMs = performance.now()
      controller.abort(new Error('gone'))
      await expect(waiting).rejects.toThrow('gone')
      expect(performance.now() - startedAtMs).toBeLessThan(1000)
    })
  })

  test('once, signal aborted while `onTakenOver` looks for the effect: the lock is released, and the work does not run', async () => {
    const { latchkey, address } = caller()
    await expect(latchkey.once(address, () => Promise.reject(new Error('lost')))).rejects.toThrow('lost')
    const controller = new AbortController()
    const reason = new Error('stop')
    const onTakenOver = () => {
      controller.abort(reason)
      return 'run' as const
    }
    const outcome = latchkey.once({ ...address, onTakenOver, signal: controller.signal }, () =>
      expect.unreachable(),
    )
    await expect(outcome).rejects.toBe(reason)
    const next = await latchkey.once({ ...address, waitMs: 0 }, () => 1)
    expect(next).toEqual({ kind: 'taken_over', phase: 'before' })
  })

  test('once, signal aborted while the work runs: the signal of the work aborts with the same reason, and the result is saved', async () => {
    const { latchkey, faults, address } = caller()
    const controller = new AbortController()
    const reason = new Error('gone')
    const work = async ({ signal }: WorkContext) => {
      controller.abort(reason)
      expect(await aborted(signal)).toBe(reason)
      return 1
    }
    expect(await latchkey.once({ ...address, signal: controller.signal }, work)).toMatchObject({
      kind: 'ran',
    })
    expect(faults.calls).toEqual([check, save])
  })

  test('once, signal aborted while a save is repeated: the outcome is `unknown`', async () => {
    const { latchkey, faults, address, next } = caller()
    faults.fail(save, 'answer lost', 100)
    const controller = new AbortController()
    void next('save repeated').then(() => controller.abort())
    const outcome = await latchkey.once({ ...address, signal: controller.signal }, () => 1)
    expect(outcome).toMatchObject({ kind: 'unknown', reason: 'aborted' })
  })
})
