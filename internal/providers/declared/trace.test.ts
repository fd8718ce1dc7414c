import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { parseProvider } from './manifest.ts'
import type { Declaration, Vector } from './schema.ts'
import { traceCall } from './trace.ts'
import { callOf } from './vectors.ts'

const folder = `${import.meta.dir}/../../../config/providers`

function read(name: string): Declaration {
  const parsed = parseProvider(parse(readFileSync(`${folder}/${name}.yaml`, 'utf8')))
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.declaration
}

const slack = read('slack')

function slackVector(name: string): Vector {
  const vector = slack.vectors?.find((each) => each.name === name)
  if (vector === undefined) throw new Error(`slack has no vector ${name}`)
  return vector
}

const event = slackVector('event')

function traceEvent(change: Partial<Vector>) {
  const vector = { ...event, ...change }
  return traceCall(slack, callOf(vector), vector.secrets)
}

function withHeader(name: string, value: string): Partial<Vector> {
  return { headers: { ...event.headers, [name]: value } }
}

const declarations = readdirSync(folder)
  .filter((file) => file.endsWith('.yaml'))
  .map((file) => read(file.replace('.yaml', '')))
const vectors = declarations.flatMap((declaration) =>
  (declaration.vectors ?? [])
    .filter((vector) => vector.expect.type !== undefined)
    .map((vector) => [`${declaration.name}, ${vector.name}`, declaration, vector] as const),
)

test.each(vectors)('trace of vector %s: contains the signature of the call', (_name, declaration, vector) => {
  const { outcome, scheme, signatures, computed } = traceCall(
    declaration,
    callOf(vector),
    vector.secrets,
    vector.fetched?.[0]?.text,
  )
  expect(outcome.kind).toBe('event')
  expect(scheme?.keyCount).toBeGreaterThan(0)
  if (!scheme?.algorithm.startsWith('hmac')) return
  const lower = (texts: readonly string[] = []) => texts.map((text) => text.toLowerCase().replaceAll('=', ''))
  const received = new Set(lower(signatures?.texts))
  expect(lower(computed).some((each) => received.has(each))).toBe(true)
})

test('trace: shows parts, signed text and computed signature of a verified call', () => {
  const { scheme, signatures, time, signed, computed } = traceEvent({})
  const received = event.headers['X-Slack-Signature'] ?? ''
  expect(scheme).toEqual({
    position: 0,
    algorithm: 'hmac-sha256',
    value: received,
    keyCount: 1,
    keyReasons: ['16 bytes, the text itself'],
  })
  expect(signatures).toEqual({ texts: [received.slice(3)], decodedCount: 1 })
  expect(time).toEqual({ text: '1794300001', atMs: 1_794_300_001_000, ageMs: 0, ageMsMax: 300_000 })
  expect(signed?.text).toBe(`v0:1794300001:${event.body}`)
  expect(computed).toEqual([received.slice(3)])
})

test('trace of a call with a changed body: ends with a mismatch and shows both signatures', () => {
  const trace = traceEvent({ body: `${event.body} ` })
  expect(trace.outcome).toEqual({ kind: 'refused', cause: 'signature_mismatch' })
  expect(trace.computed).toHaveLength(1)
  expect(trace.signatures?.texts).not.toContain(trace.computed[0] ?? '')
})

test('trace of a call without a signature: contains no scheme', () => {
  const trace = traceCall(slack, callOf({ ...event, headers: {} }), event.secrets)
  expect(trace).toEqual({ computed: [], outcome: { kind: 'refused', cause: 'signature_missing' } })
})

test('trace of a signature header with another prefix: stops before the signatures', () => {
  const trace = traceEvent(withHeader('X-Slack-Signature', 'v1=00'))
  expect(trace.outcome).toEqual({ kind: 'refused', cause: 'scheme_unknown' })
  expect(trace.scheme?.value).toBe('v1=00')
  expect(trace.signatures).toBeUndefined()
})

test('trace of a call with an unreadable time: shows the text of the time', () => {
  const trace = traceEvent(withHeader('X-Slack-Request-Timestamp', 'yesterday'))
  expect(trace.outcome).toEqual({ kind: 'refused', cause: 'signature_malformed' })
  expect(trace.time).toEqual({ text: 'yesterday', atMs: undefined, ageMs: undefined, ageMsMax: 300_000 })
})

test('trace of an old call: shows the age of the call', () => {
  const trace = traceEvent({ at: '2026-11-10T08:50:01Z' })
  expect(trace.outcome).toEqual({ kind: 'refused', cause: 'timestamp_outside_window' })
  expect(trace.time?.ageMs).toBe(600_000)
})

test('trace of a handshake: shows the answer to the handshake', () => {
  const vector = slackVector('handshake')
  const { outcome } = traceCall(slack, callOf(vector), vector.secrets)
  expect(outcome).toMatchObject({ kind: 'answered', answer: { body: vector.expect.answer } })
})

test('trace of a verified call without an event id: has the cause `event_id_missing`', () => {
  const provider = read('linear')
  const [vector] = provider.vectors ?? []
  if (vector === undefined) throw new Error('linear has no vector')
  const { 'Linear-Delivery': _id, ...headers } = vector.headers
  const trace = traceCall(provider, callOf({ ...vector, headers }), vector.secrets)
  expect(trace.outcome).toEqual({ kind: 'verified_only', cause: 'event_id_missing' })
})

test('trace of a call with a long signed text: shows the first 4096 characters of the text', () => {
  const trace = traceEvent({ body: `{"pad":"${'x'.repeat(10_000)}"}` })
  expect(trace.signed?.isCut).toBe(true)
  expect(trace.signed?.text).toHaveLength(4096)
  expect(trace.signed?.bytes).toBeGreaterThan(10_000)
})
