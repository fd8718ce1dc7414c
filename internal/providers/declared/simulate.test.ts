import { expect, test } from 'bun:test'
import { shippedDeclarations } from '#cmd/dev/shipped-declarations.ts'
import { parseStored } from '../known-providers.ts'
import { compileDeclaration } from './compile.ts'
import type { Declaration, Scheme } from './schema.ts'
import { declarationText } from './shipped-declarations.ts'
import { declaredSampleOf, simulateDeclared } from './simulate.ts'
import { defaultSignatureAgeMsMax } from './vectors.ts'

const nowMs = Date.UTC(2026, 10, 26, 12)
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'

function simulated(declaration: Declaration, type: string, own = secret) {
  const running = parseStored(declarationText(declaration))
  const call = simulateDeclared(running, {
    id: 'evt_sim_1',
    sample: declaredSampleOf(running, type),
    occurredAtMs: nowMs,
    secret: own,
  })
  if (call === undefined) return undefined
  const provider = compileDeclaration(running)
  const received = { ...call, settings: {}, nowMs, signatureAgeMsMax: defaultSignatureAgeMsMax }
  const isVerified = provider.verify(received, provider.prepare([own])).kind === 'verified'
  return { call, isVerified, event: provider.normalize(received) }
}

/** The vendor has the key alone, the signature is a JSON Web Token, or the call lists what it signs. */
const isIrreversible = ({ algorithm, signs = '' }: Scheme) =>
  /^(ed25519|ecdsa|rsa|jwt|aws-sns)/.test(algorithm) || signs.includes('{headers:')

test.each(shippedDeclarations().map((each) => [each.name, each] as const))(
  'simulated call: a call for each type of %s gets this type, and is signed if its signature can be simulated',
  (_name, declaration) => {
    const { types = [], vectors = [], signature } = declaration
    const recorded = vectors.flatMap(({ expect: { type } }) => (type === undefined ? [] : [type]))
    const own = vectors.find(({ expect: { type } }) => type !== undefined)?.secrets[0]
    for (const type of new Set([...types.map((each) => each.type), ...recorded])) {
      const made = simulated(declaration, type, own)
      expect([type, made?.event]).toMatchObject([type, { kind: 'event', type }])
      const isSigned = !signature.schemes.every(isIrreversible)
      expect([type, made?.call.isSigned, made?.isVerified]).toEqual([type, isSigned, isSigned])
    }
  },
)

const base: Declaration = {
  name: 'acme',
  body: { bytesMax: 65_536, json: {} },
  headers: { signature: { names: ['X-Acme-Signature'] }, topic: { names: ['X-Acme-Topic'] } },
  signature: {
    schemes: [
      { algorithm: 'hmac-sha256', signature: { header: 'signature' }, encoding: 'hex', signs: '{body}' },
    ],
  },
  event: { id: [{ json: 'id' }], type: { from: [{ json: 'kind' }] } },
}
const withScheme = (scheme: Partial<Scheme>, more: Partial<Declaration> = {}): Declaration => ({
  ...base,
  ...more,
  signature: { schemes: [{ ...base.signature.schemes[0], ...scheme } as Scheme] },
})

test.each<[string, Declaration, boolean]>([
  ['of the body', base, true],
  [
    'in pairs with the time',
    withScheme({
      signature: { header: 'signature', pairs: { separator: ',', assign: '=', name: 'v1' } },
      timestamp: { pair: 't', unit: 's' },
      signs: '{timestamp}.{body}',
    }),
    true,
  ],
  ['over the URL', withScheme({ signs: '{method} {url} {body}' }), true],
  ['in the query', withScheme({ signature: { query: 'sig' } }), true],
  [
    'over a header that carries the type',
    withScheme(
      { signs: '{header:topic}{body}' },
      { event: { id: [{ json: 'id' }], type: { from: [{ header: 'topic' }] } } },
    ),
    true,
  ],
  [
    'with a header that must equal the hash of the body',
    withScheme({ signs: '{header:topic}', requires: [{ header: 'topic', equals: '{sha256:body}' }] }),
    true,
  ],
  ['in the body that it covers', withScheme({ signature: { json: 'sig' } }), false],
  ['of a form', withScheme({}, { body: { bytesMax: 65_536, form: { jsonField: 'payload' } } }), true],
  [
    'of an array',
    withScheme(
      {},
      {
        body: { bytesMax: 65_536, json: { arrayAs: 'events' } },
        event: { id: [{ hash: '{body}' }], type: { from: [{ text: 'batch' }] } },
      },
    ),
    true,
  ],
])(
  'simulated call: with a signature %s, is signed if this signature can be simulated',
  (_what, declaration, isSigned) => {
    const type = declaration.event.type.from[0]?.text ?? 'door.opened'
    const made = simulated(declaration, type)
    expect(made?.event).toMatchObject({ kind: 'event', rawType: type })
    expect([made?.call.isSigned, made?.isVerified]).toEqual([isSigned, isSigned])
  },
)

test('simulated call: two calls of the same type become two events', () => {
  const hashed = { ...base, event: { ...base.event, id: [{ hash: '{body}' }] } }
  const ids = ['evt_sim_1', 'evt_sim_2'].map((id) => {
    const sample = declaredSampleOf(hashed, 'a.b')
    const call = simulateDeclared(hashed, { id, sample, occurredAtMs: nowMs, secret })
    return call && Buffer.from(call.body).toString()
  })
  expect(new Set(ids).size).toBe(2)
})

test('declaration text: contains the payloads of vectors, and neither their secrets nor their headers', () => {
  const gitlab = shippedDeclarations().find(({ name }) => name === 'gitlab')
  if (!gitlab) throw new Error('there is no gitlab')
  const text = declarationText(gitlab)
  expect(parseStored(text).samples).toEqual([
    {
      rawType: 'Merge Request Hook',
      type: 'pull_request.merged',
      payload: expect.objectContaining({ object_kind: 'merge_request' }),
    },
  ])
  expect(text).not.toContain('a-secret-token')
  expect(text).not.toContain('908a6d9e')
})
