import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createKubeClient, createTransport, type Secret } from '#internal/kube/index.ts'
import { type FakeApiServer, type SeenRequest, startFakeApiServer } from '#test/support/fake-api-server.ts'
import type { GeneratedSecret, TenantSecrets } from '../source.ts'
import { createClusterSecrets, grantCommand, type KnownSecret } from './secrets.ts'

/** Refusals and races that a real API server cannot be made to show at will; all else is tested against one in test/cluster. */
let server: FakeApiServer
let answer: (request: SeenRequest) => Response
let known: Map<string, KnownSecret>
let secrets: ReturnType<typeof createClusterSecrets>
beforeEach(() => {
  known = new Map()
  answer = () => refusal(404, 'NotFound')
  server = startFakeApiServer((request) => answer(request))
  secrets = createClusterSecrets({
    client: createKubeClient(createTransport({ endpoint: server.endpoint, userAgent: 'test' })),
    known: ({ name }) => known.get(name) ?? { kind: 'known', secret: undefined },
    username: 'system:serviceaccount:latchkey:latchkey-operator',
  })
})
afterEach(() => server.stop())

const generated = new Set(['acme-callback'])
const of = (mayWrite = () => true): TenantSecrets =>
  secrets.of({ namespace: 'shops', name: 'acme', uid: 'u1', generated }, mayWrite)

function refusal(code: number, reason: string): Response {
  const message = 'values such as hunter2'
  return Response.json({ kind: 'Status', status: 'Failure', code, reason, message }, { status: code })
}

function stored(
  resourceVersion: string,
  labels: Record<string, string> = { 'latchkey.dev/tenant': 'acme' },
): Secret {
  const data = { signingSecret: Buffer.from('whsec_a').toString('base64') }
  return { metadata: { namespace: 'shops', name: 'acme-callback', resourceVersion, labels }, data }
}

const wanted: GeneratedSecret = {
  ...{ namespace: 'shops', name: 'acme-callback', annotations: {}, cause: 'missing', replaces: undefined },
  values: { signingSecret: 'whsec_a' },
  owner: { uid: 'u1', name: 'acme' },
}

describe('writing', () => {
  test.each<[string, number, string, object]>([
    ['a name that somebody has is left alone', 409, 'AlreadyExists', { kind: 'taken' }],
    ['an immutable one is reported', 422, 'Invalid', { kind: 'refused', reason: 'SecretInvalid' }],
    ['a missing right is reported', 403, 'Forbidden', { kind: 'refused', reason: 'Forbidden' }],
  ])('%s', async (_what, code, reason, result) => {
    answer = () => refusal(code, reason)
    const written = await of().writeSecret(wanted)
    expect(written).toMatchObject(result)
    expect(JSON.stringify(written)).not.toContain('hunter2')
  })

  test('a change names the version that it was made from, and takes away what is not wanted any more', async () => {
    answer = () => Response.json(stored('9'))
    await of().writeSecret({ ...wanted, replaces: '8' })
    const [request] = server.seen
    expect(request?.method).toBe('PATCH')
    expect(request?.body).toMatchObject({
      metadata: { resourceVersion: '8', annotations: { 'latchkey.dev/previous-until': null } },
      data: { previousSigningSecret: null },
    })
  })

  test('a change that came too late changes nothing', async () => {
    answer = () => refusal(409, 'Conflict')
    expect(await of().writeSecret({ ...wanted, replaces: '8' })).toEqual({ kind: 'taken' })
  })

  test('who no longer leads writes nothing', async () => {
    expect(await of(() => false).writeSecret(wanted)).toEqual({ kind: 'taken' })
    expect(server.seen).toEqual([])
  })

  test('a server that does not say is no answer, and the turn is repeated', async () => {
    answer = () => refusal(500, 'InternalError')
    const failed = await of()
      .writeSecret(wanted)
      .catch((error: unknown) => String(error))
    expect(failed).toContain('writing a Secret')
    expect(failed).not.toContain('hunter2')
  })
})

describe('reading', () => {
  test('what was just written is seen before the watch tells of it, and not for longer', async () => {
    answer = () => Response.json(stored('9'))
    await of().writeSecret(wanted)
    expect(await of().readSecret('shops', 'acme-callback')).toMatchObject({ secret: { version: '9' } })
    known.set('acme-callback', { kind: 'known', secret: stored('10') })
    expect(await of().readSecret('shops', 'acme-callback')).toMatchObject({ secret: { version: '10' } })
    expect(server.seen).toHaveLength(1)
  })

  test('what was just written and then deleted is missing', async () => {
    answer = () => Response.json(stored('9'))
    await of().writeSecret(wanted)
    secrets.forget({ namespace: 'shops', name: 'acme-callback' })
    expect(await of().readSecret('shops', 'acme-callback')).toEqual({ kind: 'missing' })
  })

  test('a Secret without the label is asked for, and says whose it is', async () => {
    answer = () => Response.json(stored('9', { 'latchkey.dev/tenant': 'other' }))
    expect(await of().readSecret('shops', 'brought')).toEqual({ kind: 'unlabelled', labelled: 'other' })
  })

  test('a generated one is not asked for until its name turns out to be taken', async () => {
    expect(await of().readSecret('shops', 'acme-callback')).toEqual({ kind: 'missing' })
    expect(server.seen).toEqual([])
    answer = ({ method }) =>
      method === 'POST' ? refusal(409, 'AlreadyExists') : Response.json(stored('9', {}))
    await of().writeSecret(wanted)
    expect(await of().readSecret('shops', 'acme-callback')).toEqual({
      kind: 'unlabelled',
      labelled: undefined,
    })
  })

  test('without the right to, it says what to type', async () => {
    known.set('acme-callback', { kind: 'unknown' })
    answer = () => refusal(403, 'Forbidden')
    const read = await of().readSecret('shops', 'acme-callback')
    expect(read).toMatchObject({ kind: 'unreadable', reason: 'Forbidden' })
    expect(JSON.stringify(read)).toContain(
      'kubectl create rolebinding latchkey-operator-secrets -n shops --clusterrole=latchkey-operator-secrets --serviceaccount=latchkey:latchkey-operator',
    )
  })
})

test('a person is granted as a user', () => {
  expect(grantCommand('ada@example.com', 'shops')).toEndWith('--user=ada@example.com')
})
