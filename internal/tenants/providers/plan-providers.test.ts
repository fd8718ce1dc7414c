import { describe, expect, test } from 'bun:test'
import { tenantFinalizer } from '../tenant-object.ts'
import { type ProviderFacts, type ProviderPlan, planProviders } from './plan-providers.ts'
import type { ProviderObject, ValidatedProvider } from './provider-object.ts'
import type { StoredProvider } from './provider-store.ts'

const now = Date.UTC(2026, 10, 26)

const declared = (name: string, aliases: readonly string[] = [], text = '{}'): ValidatedProvider => ({
  kind: 'valid',
  vectorsPassed: 2,
  declaration: { name, aliases, isUnverified: false, text },
})
const invalid: ValidatedProvider = {
  kind: 'invalid',
  reason: 'VectorsFailed',
  message: 'spec.vectors[0] is wrong',
}
const row = (name: string, more: Partial<StoredProvider> = {}): StoredProvider => ({
  name,
  uid: `uid-${name}`,
  generation: 1,
  aliases: [],
  isUnverified: false,
  text: '{}',
  ...more,
})

function checked(
  name: string,
  validated: ValidatedProvider,
  metadata: Partial<ProviderObject['metadata']> = {},
): ProviderFacts['providers'][number] {
  const held = { name, uid: `uid-${name}`, generation: 1, finalizers: [tenantFinalizer], ...metadata }
  return { object: { metadata: held, spec: {} }, validated }
}

function plan(facts: Partial<ProviderFacts>): ProviderPlan[] {
  return planProviders({ providers: [], stored: [], vanished: [], users: new Map(), ...facts }, now)
}

const readyOf = (one: ProviderPlan | undefined) =>
  one?.status?.conditions?.find(({ type }) => type === 'Ready')

describe('planProviders', () => {
  test('provider plan: a new Provider gets a finalizer, then its declaration takes effect', () => {
    const [one] = plan({ providers: [checked('acme', declared('acme', ['acme-pay']), { finalizers: [] })] })
    expect(one).toMatchObject({ holds: true, step: { kind: 'put', provider: { name: 'acme' } } })
    expect(one?.status).toMatchObject({ inForceGeneration: 1, vectorsPassed: 2, names: ['acme', 'acme-pay'] })
    expect(readyOf(one)).toMatchObject({ status: 'True', reason: 'InForce' })
  })

  test('provider plan: without a change nothing is written', () => {
    const provider = checked('acme', declared('acme'))
    const [first] = plan({ providers: [provider], stored: [row('acme')] })
    const object = { ...provider.object, ...(first?.status && { status: first.status }) }
    const [second] = plan({ providers: [{ ...provider, object }], stored: [row('acme')] })
    expect(second).toMatchObject({ step: { kind: 'none' }, status: undefined, holds: false, releases: false })
  })

  test('provider plan: a new generation with an unchanged declaration only updates the recorded generation', () => {
    const [one] = plan({
      providers: [checked('acme', declared('acme'), { generation: 2 })],
      stored: [row('acme')],
    })
    expect(one?.step).toMatchObject({ kind: 'note', provider: { generation: 2 } })
  })

  test('provider plan: after a failed update, the status names the generation in force, and the declaration is not changed', () => {
    const [one] = plan({ providers: [checked('acme', invalid, { generation: 2 })], stored: [row('acme')] })
    expect(one?.step).toEqual({ kind: 'none' })
    expect(one?.status).toMatchObject({ observedGeneration: 2, inForceGeneration: 1 })
    expect(readyOf(one)).toMatchObject({
      status: 'False',
      reason: 'VectorsFailed',
      message: 'generation 1 stays in force: spec.vectors[0] is wrong',
    })
  })

  test('provider plan: an invalid new Provider does not take effect', () => {
    const [one] = plan({ providers: [checked('acme', invalid)] })
    expect(one?.step).toEqual({ kind: 'none' })
    expect(one?.status).not.toHaveProperty('inForceGeneration')
    expect(readyOf(one)?.message).toStartWith('not in force: ')
  })

  test('provider plan: deletion of a Provider that tenants use waits, and its condition names the tenants', () => {
    const gone = checked('acme', declared('acme'), { deletionTimestamp: '2026-11-26T00:00:00Z' })
    const users = new Map([['acme', [{ namespace: 'shops', name: 'one' }]]])
    const [one] = plan({ providers: [gone], stored: [row('acme')], users })
    expect(one).toMatchObject({ step: { kind: 'none' }, releases: false })
    expect(one?.status?.conditions).toMatchObject([
      { type: 'Ready', status: 'False', reason: 'Deleted' },
      {
        type: 'DeletionWaiting',
        status: 'True',
        reason: 'InUse',
        message: expect.stringContaining('shops/one'),
      },
    ])
  })

  test('provider plan: a deleted Provider that no tenant uses is deactivated, and its finalizer is removed', () => {
    const gone = checked('acme', declared('acme'), { deletionTimestamp: '2026-11-26T00:00:00Z' })
    const [one] = plan({ providers: [gone], stored: [row('acme')] })
    expect(one).toMatchObject({ step: { kind: 'remove', name: 'acme' }, releases: true, status: undefined })
  })

  test('provider plan: a change of a deleted Provider does not take effect', () => {
    const gone = checked('acme', declared('acme', [], '{"new":1}'), {
      deletionTimestamp: '2026-11-26T00:00:00Z',
    })
    const users = new Map([['acme', [{ namespace: 'shops', name: 'one' }]]])
    expect(plan({ providers: [gone], stored: [row('acme')], users })[0]?.step).toEqual({ kind: 'none' })
  })

  test.each([
    ['is kept while a tenant uses it', [{ namespace: 'shops', name: 'one' }], 'none'],
    ['is removed when no tenant uses it', [], 'remove'],
  ] as const)('provider plan: the declaration of a vanished Provider %s', (_what, using, kind) => {
    const stored = [row('acme')]
    const [one] = plan({ stored, vanished: stored, users: new Map([['acme', using]]) })
    expect(one?.step.kind).toBe(kind)
  })

  test('provider plan: a stored Provider keeps its names, and the status of a competing Provider says which Provider has them', () => {
    const older = { creationTimestamp: '2026-01-01T00:00:00Z' }
    const plans = plan({
      providers: [
        checked('portal', declared('portal'), older),
        checked('acme', declared('acme', ['portal'])),
      ],
      stored: [row('acme', { aliases: ['portal'] })],
    })
    const refused = plans.find(({ name }) => name === 'portal')
    expect(refused?.step).toEqual({ kind: 'none' })
    expect(readyOf(refused)).toMatchObject({ reason: 'NameTaken', message: expect.stringContaining('acme') })
  })

  test('provider plan: of two new Providers that claim the same name, the older Provider gets the name', () => {
    const plans = plan({
      providers: [
        checked('aaa', declared('aaa', ['portal']), { creationTimestamp: '2026-02-01T00:00:00Z' }),
        checked('zzz', declared('zzz', ['portal']), { creationTimestamp: '2026-01-01T00:00:00Z' }),
      ],
    })
    expect(plans.map(({ name, step }) => [name, step.kind])).toEqual([
      ['zzz', 'put'],
      ['aaa', 'none'],
    ])
  })

  test('provider plan: at most 500 Providers are in force', () => {
    const stored = Array.from({ length: 500 }, (_, index) => row(`p${index}`))
    const [one] = plan({ providers: [checked('acme', declared('acme'))], stored })
    expect([one?.step.kind, readyOf(one)?.reason]).toEqual(['none', 'TooMany'])
  })
})
