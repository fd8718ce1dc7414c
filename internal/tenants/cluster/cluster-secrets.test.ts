import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { createKubeClient, createTransport, type Secret } from '#internal/kube/index.ts'
import {
  type FakeApiServer,
  type SeenRequest,
  startFakeApiServer,
} from '#test/support/tenants/fake-api-server.ts'
import type { GeneratedSecret, TenantSecrets } from '../tenant-source.ts'
import { ClusterSecrets, grantCommand, type KnownSecret } from './cluster-secrets.ts'

/** Refusals and races that a real API server cannot reproduce on demand; test/cluster tests the rest against one. */
let server: FakeApiServer
let answer: (request: SeenRequest) => Response
let known: Map<string, KnownSecret>
let secrets: ClusterSecrets
beforeEach(() => {
  known = new Map()
  answer = () => refusal(404, 'NotFound')
  server = startFakeApiServer((request) => answer(request))
  secrets = new ClusterSecrets({
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
  namespace: 'shops',
  name: 'acme-callback',
  annotations: {},
  cause: 'missing',
  replaces: undefined,
  values: { signingSecret: 'whsec_a' },
  owner: { uid: 'u1', name: 'acme' },
}

describe('writing', () => {
  test.each<[string, number, string, object]>([
    ['taken for a Secret of another owner', 409, 'AlreadyExists', { kind: 'taken' }],
    ['refused for an immutable Secret', 422, 'Invalid', { kind: 'refused', reason: 'SecretInvalid' }],
    ['refused without permission', 403, 'Forbidden', { kind: 'refused', reason: 'Forbidden' }],
  ])('writeSecret: returns %s', async (_what, code, reason, result) => {
    answer = () => refusal(code, reason)
    const written = await of().writeSecret(wanted)
    expect(written).toMatchObject(result)
    expect(JSON.stringify(written)).not.toContain('hunter2')
  })

  test('writeSecret: a replacement sends the resourceVersion that was read and removes obsolete entries', async () => {
    answer = () => Response.json(stored('9'))
    await of().writeSecret({ ...wanted, replaces: '8' })
    const [request] = server.seen
    expect(request?.method).toBe('PATCH')
    expect(request?.body).toMatchObject({
      metadata: { resourceVersion: '8', annotations: { 'latchkey.dev/previous-until': null } },
      data: { previousSigningSecret: null },
    })
  })

  test('writeSecret: a replacement of a stale version returns taken', async () => {
    answer = () => refusal(409, 'Conflict')
    expect(await of().writeSecret({ ...wanted, replaces: '8' })).toEqual({ kind: 'taken' })
  })

  test('writeSecret: writes nothing without leadership', async () => {
    expect(await of(() => false).writeSecret(wanted)).toEqual({ kind: 'taken' })
    expect(server.seen).toEqual([])
  })

  test('writeSecret: throws when the API server is unavailable', async () => {
    answer = () => refusal(500, 'InternalError')
    const failed = await of()
      .writeSecret(wanted)
      .catch((error: unknown) => String(error))
    expect(failed).toContain('cannot write a Secret')
    expect(failed).not.toContain('hunter2')
  })
})

describe('reading', () => {
  test('readSecret: returns the process’s own write until the watch reports it', async () => {
    answer = () => Response.json(stored('9'))
    await of().writeSecret(wanted)
    expect(await of().readSecret('shops', 'acme-callback')).toMatchObject({ secret: { version: '9' } })
    known.set('acme-callback', { kind: 'known', secret: stored('10') })
    expect(await of().readSecret('shops', 'acme-callback')).toMatchObject({ secret: { version: '10' } })
    expect(server.seen).toHaveLength(1)
  })

  test('readSecret: reports a deleted Secret as missing, even if this process wrote it', async () => {
    answer = () => Response.json(stored('9'))
    await of().writeSecret(wanted)
    secrets.forget({ namespace: 'shops', name: 'acme-callback' })
    expect(await of().readSecret('shops', 'acme-callback')).toEqual({ kind: 'missing' })
  })

  test('readSecret: reads an unlabelled Secret from the API server and returns its label', async () => {
    answer = () => Response.json(stored('9', { 'latchkey.dev/tenant': 'other' }))
    expect(await of().readSecret('shops', 'brought')).toEqual({ kind: 'unlabelled', labelled: 'other' })
  })

  test('readSecret: reads a generated Secret from the API server only after its creation failed because it exists', async () => {
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

  test('readSecret: for a forbidden namespace, the message contains the command that grants access', async () => {
    known.set('acme-callback', { kind: 'unknown' })
    answer = () => refusal(403, 'Forbidden')
    const read = await of().readSecret('shops', 'acme-callback')
    expect(read).toMatchObject({ kind: 'unreadable', reason: 'Forbidden' })
    expect(JSON.stringify(read)).toContain(
      'kubectl create rolebinding latchkey-operator-secrets -n shops --clusterrole=latchkey-operator-secrets --serviceaccount=latchkey:latchkey-operator',
    )
  })
})

test('grantCommand: supports a user that is not a service account', () => {
  expect(grantCommand('ada@example.com', 'shops')).toEndWith('--user=ada@example.com')
})
