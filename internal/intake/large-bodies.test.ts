import { afterEach, describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { LargeBodies } from './large-bodies.ts'

const secret = 'a secret of a test'
const opened: LargeBodies[] = []

afterEach(() => {
  for (const each of opened.splice(0)) each.close()
})

function open(): LargeBodies {
  const bodies = new LargeBodies()
  opened.push(bodies)
  return bodies
}

function callOf(text: string, signedBy = secret): Parameters<LargeBodies['read']> {
  const body = Buffer.from(text)
  const hex = createHmac('sha256', signedBy).update(body).digest('hex')
  const headers = new Headers({
    'X-Hub-Signature-256': `sha256=${hex}`,
    'X-GitHub-Delivery': 'delivery-1',
    'X-GitHub-Event': 'push',
  })
  const call = { body, headers, settings: {}, nowMs: Date.now(), signatureAgeMsMax: 300_000 }
  return [call, { providerName: 'codehost', secrets: [secret] }]
}

const bodyOf = (bytes: number) =>
  `{"ref":"main","big":820982911946154508,"text":"${'日x'.repeat(bytes / 4)}"}`

describe('large bodies', () => {
  test('large body: the worker returns the same result as the main thread', async () => {
    const text = bodyOf(3_000_000)
    const reading = await open().read(...callOf(text))
    expect(reading).toMatchObject({
      kind: 'event',
      sourceEventId: 'delivery-1',
      rawType: 'push',
      type: 'code.pushed',
    })
    expect(reading?.kind === 'event' && reading.payload === text).toBe(true)
  })

  test('large body: the worker returns the cause of a refusal', async () => {
    const bodies = open()
    const deep = `{"a":${'['.repeat(256)}${']'.repeat(256)}}`
    const calls = [callOf('{}', 'other'), callOf('[1]'), callOf(deep), callOf(deep, 'other')]
    expect(await Promise.all(calls.map((call) => bodies.read(...call)))).toEqual([
      { kind: 'refused', cause: 'signature_mismatch' },
      { kind: 'refused', cause: 'body_not_json' },
      { kind: 'refused', cause: 'body_too_deep' },
      { kind: 'refused', cause: 'signature_mismatch' },
    ])
  })

  test('large body: does not block the event loop', async () => {
    const bodies = open()
    await bodies.read(...callOf('{}'))
    const call = callOf(bodyOf(20_000_000))
    let turns = 0
    const reading = bodies.read(...call)
    const ticking = setInterval(() => {
      turns += 1
    }, 1)
    await reading
    clearInterval(ticking)
    expect(turns).toBeGreaterThan(10)
  }, 20_000)

  test('large body: a body in progress gets no result if the worker exits, and the next body gets a new worker', async () => {
    const bodies = open()
    const given = bodies.read(...callOf(bodyOf(3_000_000)))
    bodies.close()
    expect(await given).toBeUndefined()
    expect(await bodies.read(...callOf('{}'))).toMatchObject({ kind: 'event' })
  })
})
