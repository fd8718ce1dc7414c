import { describe, expect, test } from 'bun:test'
import { parseTenant } from '../parse-tenant.ts'
import { tenantIdOfUid } from '../tenant-object.ts'
import type { GeneratedSecret, SecretRead, TenantManifest } from '../tenant-source.ts'
import type { StoredKey, StoredSecret, TenantFacts } from './gather-tenant.ts'
import { hashApiKey } from './plan-keys.ts'
import { planTenant, type TenantPlan } from './plan-tenant.ts'
import { rotateAnnotation, rotatedAnnotation, rotatedLifeMs } from './secret-place.ts'

const now = Date.parse('2026-11-01T00:00:00Z')
const uid = 'uid-acme'
let drawn = 0
/** Different bytes at each call. */
const random = (count: number) => new Uint8Array(count).fill((drawn += 1))

const manifest: TenantManifest = { uid, namespace: 'shops', name: 'acme', createdAtMs: 1, spec: spec() }

function spec() {
  const parsed = parseTenant({
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name: 'acme' },
    spec: {
      slug: 'acme',
      callback: { url: 'https://hooks.example/' },
      apiKeys: [{ name: 'default', scopes: ['records'] }],
    },
  })
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.tenant.spec
}

/** State of the cluster and of Postgres between two plans. */
interface World {
  readonly secrets: Map<string, SecretRead>
  keys: StoredKey[]
  signing: StoredSecret[]
}

const emptyWorld = (): World => ({ secrets: new Map(), keys: [], signing: [] })

function factsOf(world: World): TenantFacts {
  const read = (name: string): [string, SecretRead] => [name, world.secrets.get(name) ?? { kind: 'missing' }]
  return {
    manifest,
    tenantId: tenantIdOfUid(uid),
    stored: {
      id: tenantIdOfUid(uid),
      uid,
      namespace: 'shops',
      name: 'acme',
      slug: 'acme',
      spec: manifest.spec,
      conditions: [],
      resourceCreatedAtMs: 1,
      deletedAtMs: null,
      keys: world.keys,
      secrets: world.signing,
    },
    slug: { holder: undefined, reservation: undefined, olderClaimant: undefined },
    secrets: new Map([read('acme-callback'), read('acme-key-default')]),
    keysOfOthers: new Set(),
    currentKeyId: 'k1',
    callbackBounds: { cidrsMax: [], ports: [] },
    callbackSuspension: undefined,
    notificationsSuspension: undefined,
  }
}

/** Plans and applies the plan; `stored` false simulates a crash between the Secrets and Postgres. */
function reconcile(world: World, at = now, stored = true): TenantPlan {
  const plan = planTenant(factsOf(world), at, random)
  for (const secret of plan.generate) world.secrets.set(secret.name, written(secret))
  if (!stored) return plan
  const ended = new Set(plan.keys.remove)
  const put = new Map([...world.keys, ...plan.keys.put].map((key) => [key.sha256Hex, key]))
  world.keys = [...put.values()].filter(({ sha256Hex }) => !ended.has(sha256Hex))
  const gone = new Set(plan.secrets.remove.map(({ ordinal }) => ordinal))
  const rows = new Map(world.signing.map((row) => [row.ordinal, row]))
  for (const row of plan.secrets.put) rows.set(row.ordinal, { ...row, keyId: 'k1' })
  world.signing = [...rows.values()].filter(({ ordinal }) => !gone.has(ordinal))
  return plan
}

let versions = 0
function written({ namespace, name, values, annotations, owner }: GeneratedSecret): SecretRead {
  versions += 1
  const version = String(versions)
  return {
    kind: 'found',
    secret: { namespace, name, values: new Map(Object.entries(values)), annotations, owner, version },
  }
}

/** Edits a Secret by hand. */
function edit(
  world: World,
  name: string,
  change: { values?: Record<string, string>; annotations?: Record<string, string> },
): void {
  const read = world.secrets.get(name)
  if (read?.kind !== 'found') throw new Error(`${name} is not there`)
  const values = new Map([...read.secret.values, ...Object.entries(change.values ?? {})])
  const annotations = { ...read.secret.annotations, ...change.annotations }
  world.secrets.set(name, { kind: 'found', secret: { ...read.secret, values, annotations } })
}

function valuesOf(world: World, name: string): Record<string, string> {
  const read = world.secrets.get(name)
  return read?.kind === 'found' ? Object.fromEntries(read.secret.values) : {}
}

const signing = (world: World) => valuesOf(world, 'acme-callback')['signingSecret'] ?? ''
const apiKey = (world: World) => valuesOf(world, 'acme-key-default')['apiKey'] ?? ''
const liveSigning = (world: World) => world.signing.map(({ value }) => value)

function settled(): World {
  const world = emptyWorld()
  reconcile(world)
  return world
}

test('generated Secret: planning again without a change plans no writes', () => {
  const world = settled()
  const plan = reconcile(world)
  expect(plan.generate).toEqual([])
  expect([plan.keys.put, plan.secrets.put, plan.secrets.remove]).toEqual([[], [], []])
})

describe('rotation', () => {
  test('rotation: creates a new signing secret, and the previous one still signs for a day', () => {
    const world = settled()
    const first = signing(world)
    edit(world, 'acme-callback', { annotations: { [rotateAnnotation]: 'today' } })
    reconcile(world)
    expect(signing(world)).not.toBe(first)
    expect(valuesOf(world, 'acme-callback')['previousSigningSecret']).toBe(first)
    expect(liveSigning(world)).toEqual([signing(world), first])
    expect(reconcile(world, now + rotatedLifeMs - 1).generate).toEqual([])
    const ended = reconcile(world, now + rotatedLifeMs)
    expect(ended.generate).toMatchObject([
      { cause: 'previousEnded', values: { signingSecret: signing(world) } },
    ])
    expect(liveSigning(world)).toEqual([signing(world)])
    expect(reconcile(world, now + rotatedLifeMs).generate).toEqual([])
  })

  test('rotation: creates a new API key, and the previous one stays valid for a day', () => {
    const world = settled()
    const first = apiKey(world)
    edit(world, 'acme-key-default', { annotations: { [rotateAnnotation]: 'today' } })
    reconcile(world)
    const ends = new Map(world.keys.map(({ sha256Hex, endsAtMs }) => [sha256Hex, endsAtMs]))
    expect(ends).toEqual(
      new Map([
        [hashApiKey(first), now + rotatedLifeMs],
        [hashApiKey(apiKey(world)), null],
      ]),
    )
  })

  test('rotation: happens once for each new value of the annotation', () => {
    const world = settled()
    edit(world, 'acme-callback', { annotations: { [rotateAnnotation]: 'one' } })
    reconcile(world)
    const second = signing(world)
    edit(world, 'acme-callback', { annotations: { [rotateAnnotation]: 'one' } })
    reconcile(world)
    expect(signing(world)).toBe(second)
    edit(world, 'acme-callback', { annotations: { [rotateAnnotation]: 'two' } })
    const plan = reconcile(world)
    expect(signing(world)).not.toBe(second)
    expect(plan.generate[0]?.annotations[rotatedAnnotation]).toBe('two')
  })

  test('rotation: continues after a crash between writing the Secret and writing Postgres', () => {
    const world = settled()
    const first = signing(world)
    edit(world, 'acme-callback', { annotations: { [rotateAnnotation]: 'today' } })
    reconcile(world, now, false)
    const second = signing(world)
    expect(liveSigning(world)).toEqual([first])
    expect(reconcile(world).generate).toEqual([])
    expect(liveSigning(world)).toEqual([second, first])
  })
})

describe('edited generated Secret', () => {
  test('edited generated Secret: gets its stored signing secrets back, even during a rotation', () => {
    const world = settled()
    edit(world, 'acme-callback', { annotations: { [rotateAnnotation]: 'today' } })
    reconcile(world)
    const before = valuesOf(world, 'acme-callback')
    const live = liveSigning(world)
    edit(world, 'acme-callback', { values: { signingSecret: 'whsec_d3Jvbmc=' } })
    const plan = reconcile(world)
    expect(plan.generate).toMatchObject([{ cause: 'edited', replaces: String(versions - 1) }])
    expect(valuesOf(world, 'acme-callback')).toEqual(before)
    expect(liveSigning(world)).toEqual(live)
    expect([plan.secrets.put, plan.secrets.remove]).toEqual([[], []])
  })

  test('edited generated Secret: gets a new API key, because only a hash of the old key is stored', () => {
    const world = settled()
    const first = apiKey(world)
    edit(world, 'acme-key-default', { values: { apiKey: `lk_${'a'.repeat(40)}` } })
    const plan = reconcile(world)
    expect(plan.generate).toMatchObject([{ name: 'acme-key-default', cause: 'edited' }])
    expect(world.keys.map(({ sha256Hex }) => sha256Hex)).toEqual([
      hashApiKey(first),
      hashApiKey(apiKey(world)),
    ])
    expect(world.keys.map(({ sha256Hex }) => sha256Hex)).not.toContain(hashApiKey(`lk_${'a'.repeat(40)}`))
  })

  test('edited generated Secret: entries that Latchkey did not write are ignored', () => {
    const world = settled()
    edit(world, 'acme-callback', { values: { note: 'of a colleague' } })
    expect(reconcile(world).generate).toEqual([])
    expect(liveSigning(world)).toEqual([signing(world)])
  })
})

test('deleted generated Secret: is created again with new values, and the old values stay valid for a day', () => {
  const world = settled()
  const [first, firstKey] = [signing(world), apiKey(world)]
  world.secrets.clear()
  reconcile(world)
  expect(liveSigning(world)).toEqual([signing(world), first])
  expect(world.keys.map(({ sha256Hex, endsAtMs }) => [sha256Hex, endsAtMs])).toEqual([
    [hashApiKey(firstKey), now + rotatedLifeMs],
    [hashApiKey(apiKey(world)), null],
  ])
})

test('generated Secret: a missing Secret that may be on another machine is not generated again while its values are stored', () => {
  const world = settled()
  const [stored, keys] = [liveSigning(world), world.keys]
  const elsewhere = { kind: 'missing', mayBeElsewhere: true } as const
  for (const name of ['acme-callback', 'acme-key-default']) world.secrets.set(name, elsewhere)
  const plan = reconcile(world)
  expect(plan.generate).toEqual([])
  expect([liveSigning(world), world.keys]).toEqual([stored, keys])
  const condition = plan.conditions.find(({ type }) => type === 'SecretsSynced')
  expect(condition).toMatchObject({ status: 'False', reason: 'SecretElsewhere' })
})

test('generated Secret: a missing Secret that may be on another machine is generated for a new tenant', () => {
  const world = emptyWorld()
  const elsewhere = { kind: 'missing', mayBeElsewhere: true } as const
  for (const name of ['acme-callback', 'acme-key-default']) world.secrets.set(name, elsewhere)
  expect(reconcile(world).generate).toHaveLength(2)
})
