import type { AcquireOutcome } from '#internal/records/record.ts'
import { Dice } from '#test/support/records/record-callers.ts'
import {
  type ClockMove,
  findViolations,
  type History,
  type HistoryCall,
  type RecordedCall,
} from '#test/support/records/record-history.ts'
import { until } from '#test/support/until.ts'
import { loadApiKey } from './event-scene.ts'

/** Answers since the load's `begin`. */
export interface DurableAnswers {
  /** Counts by status; 0 means that the connection broke. Calls that the caller gave up are not counted. */
  readonly byStatus: ReadonlyMap<number, number>
  /** Slowest answer 503 and slowest other one in ms, beyond the time for which the caller asked to wait. */
  readonly slowestRefusalMs: number
  readonly slowestMs: number
  /** The figures above as text. */
  readonly text: string
}

/** Result of a load, with one line per violation of the guarantees of records. */
export interface DurableReport {
  /** Operations begun, locks granted, and operations saved. */
  readonly sent: number
  readonly granted: number
  readonly saved: number
  /** Saved operations that were not found afterwards. */
  readonly lost: number
  /** Second runs that were not announced, and keys with two owners or two results. */
  readonly doubled: number
  readonly fencesBack: number
  /** Acquisitions of keys of one attempt whose answer was lost, and those that did not get their own lock afterwards. */
  readonly repeated: number
  readonly strangers: number
  readonly violations: readonly string[]
}

type Method = 'POST' | 'PUT' | 'GET' | 'DELETE'

interface Request {
  readonly key: string
  readonly method: Method
  readonly path: string
  readonly body?: object
  readonly waitMs?: number
  /** Recorded if an answer is lost, unless the request changes nothing. */
  readonly unknown?: RecordedCall
  parse(status: number, json: Json): RecordedCall
}

interface Json {
  readonly cached?: boolean
  readonly locked?: boolean
  readonly lockToken?: string
  readonly fence?: number
  readonly expiresInMs?: number
  readonly takenOver?: boolean
  readonly existed?: boolean
  readonly code?: string
  readonly record?: { readonly body: { readonly run: string } }
}

type Acquired = AcquireOutcome | { readonly kind: 'unknown' }

const callers = 10
const hotKeys = 4
const lockMs = 2000
const againMs = 25
/** Longest time after which a caller gives up an answer, to repeat the call. */
const patienceMsMax = 12
const lookAgainAtOnce = 16
const insistMsMax = 30_000
const scope = 'faults'

/**
 * Runs concurrent callers of one tenant over HTTP and records their calls as a history: on keys of their own and on a few contended ones,
 * they wait, save, extend, release, remove, crash, come late and lose replies. A call without an answer is repeated at another process.
 */
export class DurableLoad implements History {
  readonly calls: HistoryCall[] = []
  readonly clock: ClockMove[] = [{ startedAt: 0, endedAt: 0, nowMs: 0 }]
  readonly clockRuns = true
  readonly #urls: () => readonly string[]
  readonly #name: string
  readonly #all: Promise<unknown>
  #answers = new Map<number, number>()
  #slowestMs = { refused: 0, other: 0 }
  #ending = false
  #sent = 0
  #saved = 0
  #turn = 0
  #repeated = 0
  readonly #strangers: string[] = []

  constructor(urls: () => readonly string[], name: string, seed: number) {
    this.#urls = urls
    this.#name = name
    this.#all = Promise.all(
      Array.from({ length: callers }, (_none, caller) => this.#oneCaller(new Dice(seed * 1000 + caller))),
    )
    // Prevents an unhandled rejection; `end` reports the failure.
    this.#all.catch(() => undefined)
  }

  /** Resets the answers. */
  begin(): void {
    this.#answers = new Map()
    this.#slowestMs = { refused: 0, other: 0 }
  }

  answers(): DurableAnswers {
    const { refused, other } = this.#slowestMs
    const counted = [...this.#answers].map(([status, count]) => `${status}×${count}`).join(' ')
    return {
      byStatus: new Map(this.#answers),
      slowestRefusalMs: refused,
      slowestMs: other,
      text: `${counted}, slowest ${other.toFixed(0)} ms, slowest 503 ${refused.toFixed(0)} ms`,
    }
  }

  /** Returns the calls that were answered since a time (`performance.now()`) with a change of a lock or record. */
  changesSince(sinceMs: number): HistoryCall[] {
    return this.calls.filter(
      (call) => call.endedAt > sinceMs && Number.isFinite(call.endedAt) && hasChanged(call),
    )
  }

  /** Waits for further saved operations. @throws after 40 s, or if a caller failed */
  async untilSaved(count: number): Promise<void> {
    const from = this.#saved
    const saved = until(`${count} more saved operations`, () => this.#saved >= from + count, 40_000)
    await Promise.race([saved, this.#all.then(() => saved)])
  }

  /** Moves the clock of records; `shiftMs` is its distance from the true time afterwards. */
  async moveClock(shiftMs: number, move: () => Promise<unknown>): Promise<void> {
    const startedAt = performance.now()
    await move()
    this.clock.push({ startedAt, endedAt: performance.now(), nowMs: shiftMs })
  }

  async end(): Promise<void> {
    this.#ending = true
    await this.#all
  }

  /** Acquires each saved key once more, and checks the history. */
  async report(): Promise<DurableReport> {
    const saves = this.calls.filter((call) => call.do === 'save' && call.outcome === 'saved')
    const removed = new Set(
      this.calls.filter((call) => call.do === 'remove' && call.existed !== false).map(({ key }) => key),
    )
    const keys = [...new Set(saves.map(({ key }) => key))]
    let lost = 0
    for (let from = 0; from < keys.length; from += lookAgainAtOnce) {
      const some = keys.slice(from, from + lookAgainAtOnce)
      const found = await Promise.all(
        some.map((key) => this.#acquire(key, { attemptId: crypto.randomUUID() })),
      )
      lost += found.filter(({ kind }, at) => kind !== 'hit' && !removed.has(some[at] ?? '')).length
    }
    const violations = [...this.#strangers, ...findViolations(this)]
    const count = (...kinds: readonly string[]) =>
      violations.filter((line) => kinds.includes(line.slice(0, line.indexOf(':')))).length
    const granted = this.calls.filter((call) => call.do === 'acquire' && call.outcome.kind === 'locked')
    return {
      sent: this.#sent,
      granted: granted.length,
      saved: saves.length,
      lost,
      doubled: count('unannounced', 'two owners', 'two results', 'finished'),
      fencesBack: count('fence'),
      repeated: this.#repeated,
      strangers: this.#strangers.length,
      violations,
    }
  }

  async #oneCaller(dice: Dice): Promise<void> {
    while (!this.#ending) {
      this.#sent += 1
      if (dice.happens(0.25)) await this.#contend(dice, `${this.#name}-hot-${dice.upTo(hotKeys)}`)
      else if (dice.happens(0.04)) await this.#comeLate(dice, `${this.#name}-${crypto.randomUUID()}`)
      else await this.#runAlone(dice, `${this.#name}-${crypto.randomUUID()}`)
    }
  }

  /** Runs an operation on a key of its own, and expects its own lock also after lost replies. */
  async #runAlone(dice: Dice, key: string): Promise<void> {
    const attemptId = crypto.randomUUID()
    const callsBefore = this.calls.length
    const outcome = await this.#acquire(key, { attemptId, patienceMs: patienceOf(dice) })
    const repeats = this.calls
      .slice(callsBefore)
      .some((call) => call.key === key && call.do === 'acquire' && call.outcome.kind === 'unknown')
    if (repeats) this.#repeated += 1
    if (outcome.kind !== 'locked' || outcome.takenOver)
      this.#strangers.push(`stranger: the only attempt of ${key} found ${JSON.stringify(outcome)}`)
    if (outcome.kind !== 'locked') return
    // Simulates a crash of the caller.
    if (dice.happens(0.05)) return
    if (dice.happens(0.1)) await this.#extend(key, outcome.lockToken)
    if (dice.happens(0.1)) return this.#release(key, outcome.lockToken)
    await this.#save(key, outcome.lockToken, attemptId, patienceOf(dice))
    if (dice.happens(0.1)) await this.#save(key, outcome.lockToken, attemptId)
    if (dice.happens(0.1)) await this.#fetch(key)
  }

  /** Holds a key for longer than its lock, while another caller waits for it and takes it over. */
  async #comeLate(dice: Dice, key: string): Promise<void> {
    const late = await this.#acquire(key, { attemptId: crypto.randomUUID(), lockSeconds: 1 })
    const run = crypto.randomUUID()
    const next = await this.#acquire(key, { attemptId: run, waitMs: 2000 })
    if (next.kind === 'locked' && dice.happens(0.5)) await this.#save(key, next.lockToken, run)
    if (late.kind === 'locked') await this.#save(key, late.lockToken, `late ${run}`)
    if (next.kind === 'locked') await this.#save(key, next.lockToken, run)
  }

  async #contend(dice: Dice, key: string): Promise<void> {
    const run = crypto.randomUUID()
    const waitMs = dice.happens(0.5) ? 100 * dice.upTo(8) : 0
    const outcome = await this.#acquire(key, { attemptId: run, waitMs, patienceMs: patienceOf(dice) })
    if (outcome.kind === 'hit' && dice.happens(0.6)) await this.#remove(key)
    if (outcome.kind !== 'locked') return
    if (dice.happens(0.1)) return
    if (dice.happens(0.1)) await this.#extend(key, outcome.lockToken)
    if (dice.happens(0.2)) return this.#release(key, outcome.lockToken)
    await this.#save(key, outcome.lockToken, run, patienceOf(dice))
  }

  async #acquire(
    key: string,
    {
      attemptId,
      waitMs = 0,
      lockSeconds = lockMs / 1000,
      patienceMs,
    }: {
      readonly attemptId: string
      readonly waitMs?: number
      readonly lockSeconds?: number
      readonly patienceMs?: number | undefined
    },
  ): Promise<Acquired> {
    const held = { do: 'acquire' as const, lockMs: lockSeconds * 1000 }
    const call = await this.#insist(
      {
        key,
        method: 'POST',
        path: '/v1/record',
        waitMs,
        body: { scope, key, attemptId, lockSeconds, ...(waitMs > 0 && { waitMs }) },
        unknown: { ...held, outcome: { kind: 'unknown' } },
        parse: (status, json) => ({ ...held, outcome: acquiredOf(expectStatus(status, json)) }),
      },
      patienceMs,
    )
    if (call.do !== 'acquire') throw new Error('an acquisition is recorded above')
    return call.outcome
  }

  async #save(key: string, token: string, run: string, patienceMs?: number): Promise<void> {
    const save = { do: 'save' as const, token, record: run }
    const call = await this.#insist(
      {
        key,
        method: 'PUT',
        path: '/v1/record',
        body: { scope, key, lockToken: token, status: 201, body: { run } },
        unknown: { ...save, outcome: 'unknown' },
        parse: (status, json) => {
          if (status === 409) return { ...save, outcome: json.code === 'record_exists' ? 'exists' : 'lost' }
          expectStatus(status, json)
          return { ...save, outcome: 'saved' }
        },
      },
      patienceMs,
    )
    if (call.do === 'save' && call.outcome === 'saved') this.#saved += 1
  }

  async #extend(key: string, token: string): Promise<void> {
    const extend = { do: 'extend' as const, token, lockMs }
    await this.#insist({
      key,
      method: 'POST',
      path: '/v1/record/extend',
      body: { scope, key, lockToken: token, lockSeconds: lockMs / 1000 },
      unknown: { ...extend, outcome: 'unknown' },
      parse: (status, json) => {
        if (status === 409) return { ...extend, outcome: 'lost' }
        expectStatus(status, json)
        return { ...extend, outcome: 'extended' }
      },
    })
  }

  async #release(key: string, token: string): Promise<void> {
    const release = { do: 'release' as const, token }
    await this.#insist({
      key,
      method: 'DELETE',
      path: `/v1/record?scope=${scope}&key=${key}&lockToken=${token}`,
      unknown: { ...release, existed: 'unknown' },
      parse: (status, json) => ({ ...release, existed: expectStatus(status, json).existed === true }),
    })
  }

  async #remove(key: string): Promise<void> {
    await this.#insist({
      key,
      method: 'DELETE',
      path: `/v1/record?scope=${scope}&key=${key}`,
      unknown: { do: 'remove', existed: 'unknown' },
      parse: (status, json) => ({ do: 'remove', existed: expectStatus(status, json).existed === true }),
    })
  }

  async #fetch(key: string): Promise<void> {
    const parse = (status: number, json: Json): RecordedCall => {
      const { record } = expectStatus(status, json)
      return { do: 'fetch', outcome: record ? { kind: 'hit', record: record.body.run } : { kind: 'none' } }
    }
    await this.#insist({ key, method: 'GET', path: `/v1/record?scope=${scope}&key=${key}`, parse })
  }

  /** Repeats a request until it is answered by other than 503. Records one call over all tries and, if there were several, an unknown one. */
  async #insist(request: Request, patienceMs?: number): Promise<RecordedCall> {
    const { key, unknown } = request
    const startedAt = performance.now()
    for (let tries = 0; performance.now() < startedAt + insistMsMax; tries += 1) {
      const answer = await this.#send(request, tries === 0 ? patienceMs : undefined)
      if (answer) {
        const call = request.parse(answer.status, answer.json)
        if (tries > 0 && unknown)
          this.calls.push({ key, startedAt, endedAt: Number.POSITIVE_INFINITY, ...unknown })
        this.calls.push({ key, startedAt, endedAt: performance.now(), ...call })
        return call
      }
      await Bun.sleep(againMs)
    }
    throw new Error(`no answer within ${insistMsMax} ms: ${request.method} ${request.path}`)
  }

  /** Returns undefined for a lost answer and for 503. */
  async #send(
    { method, path, body, waitMs = 0 }: Request,
    patienceMs: number | undefined,
  ): Promise<{ status: number; json: Json } | undefined> {
    const urls = this.#urls()
    this.#turn += 1
    const url = urls[this.#turn % urls.length] ?? ''
    const into = this.#answers
    const startedMs = performance.now()
    let status = 0
    let answer: { status: number; json: Json } | undefined
    try {
      const response = await fetch(`${url}${path}`, {
        method,
        headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${loadApiKey}` },
        ...(body && { body: JSON.stringify(body) }),
        ...(patienceMs !== undefined && { signal: AbortSignal.timeout(patienceMs) }),
      })
      answer = { status: response.status, json: (await response.json()) as Json }
      status = response.status
      if (status === 503 && !(Number(response.headers.get('Retry-After')) > 0)) status = 599
    } catch (error) {
      if (error instanceof Error && error.name === 'TimeoutError') return undefined
    }
    into.set(status, (into.get(status) ?? 0) + 1)
    const tookMs = performance.now() - startedMs - waitMs
    const kind = status === 503 ? 'refused' : 'other'
    if (into === this.#answers) this.#slowestMs[kind] = Math.max(this.#slowestMs[kind], tookMs)
    return status === 503 || status === 599 ? undefined : answer
  }
}

function hasChanged(call: RecordedCall): boolean {
  if (call.do === 'acquire') return call.outcome.kind === 'locked'
  if (call.do === 'remove' || call.do === 'release') return call.existed === true
  return call.do !== 'fetch' && (call.outcome === 'saved' || call.outcome === 'extended')
}

function patienceOf(dice: Dice): number | undefined {
  return dice.happens(0.1) ? dice.upTo(patienceMsMax) : undefined
}

function expectStatus(status: number, json: Json): Json {
  if (status !== 200) throw new Error(`an unexpected answer ${status}: ${JSON.stringify(json)}`)
  return json
}

function acquiredOf(json: Json): AcquireOutcome {
  const { record, locked, lockToken = '', fence = 0, expiresInMs = 0, takenOver = false } = json
  if (record) return { kind: 'hit', record: record.body.run }
  if (locked === true) return { kind: 'locked', lockToken, fence, expiresInMs, takenOver }
  return { kind: 'busy', remainingMs: 0 }
}

/** Prints the result line of a fault, with further observations in `note`. */
export function printReport(fault: string, report: DurableReport, note: string): void {
  const { sent, granted, saved, lost, doubled, fencesBack, repeated, strangers } = report
  const line = `sent ${sent}, granted ${granted}, saved ${saved}, lost ${lost}, doubled ${doubled}, fence back ${fencesBack}`
  console.log(
    `${fault}: ${line}, own lock after a lost answer ${repeated - strangers} of ${repeated}; ${note}`,
  )
}
