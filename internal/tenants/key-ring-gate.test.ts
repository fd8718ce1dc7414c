import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { tenantIdFromBytes } from '#internal/base/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { keyRingOf, keyRingText } from '#test/support/api.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import type { TestDatabase } from '#test/support/stores.ts'
import type { KeyRing } from './key-ring.ts'
import { type GateOpening, KeyRingGate, type UnfitRing } from './key-ring-gate.ts'

const tenantId = tenantIdFromBytes(new Uint8Array(16).fill(1))
let database: TestDatabase
let pool: Pool

beforeAll(async () => {
  database = await createMigratedDatabase()
  pool = poolOf(database.url)
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, version, resource_created_at, created_at, updated_at)
     VALUES ($1, $1, 'shops', 'acme', 'acme', false, '{}', 1, now(), now(), now())`,
    [tenantId],
  )
})
afterEach(() => pool.query('TRUNCATE tenant_secrets'))
afterAll(async () => {
  await pool.end()
  await database.drop()
})

function poolOf(url: string): Pool {
  return createPool({
    url,
    applicationName: 'test',
    connectionsMax: 1,
    queryTimeoutMs: 5_000,
    connectTimeoutMs: 1_000,
  })
}

const right = keyRingOf(keyRingText('k1', 1))
const other = keyRingOf(keyRingText('k2', 2))
const sameIdOtherKey = keyRingOf(keyRingText('k1', 3))
const live = new AbortController().signal

/** Seals one secret for each ring, in this order of the table's key. */
async function seal(...rings: readonly KeyRing[]): Promise<void> {
  const rows = rings.map((ring, index) => {
    const field = `provider:${String(index).padStart(6, '0')}`
    return { field, ...ring.seal({ tenantId, field }, `secret ${index}`) }
  })
  await pool.query(
    `INSERT INTO tenant_secrets (tenant_id, field, ordinal, key_id, nonce, ciphertext, source_name, source_version, created_at)
     SELECT $1, f, 0, k, decode(n, 'hex'), decode(c, 'hex'), 's', '1', now()
     FROM unnest($2::text[], $3::text[], $4::text[], $5::text[]) AS s(f, k, n, c)`,
    [
      tenantId,
      rows.map(({ field }) => field),
      rows.map(({ keyId }) => keyId),
      rows.map(({ nonce }) => nonce.toString('hex')),
      rows.map(({ ciphertext }) => ciphertext.toString('hex')),
    ],
  )
}

function gateOf(keyRing: KeyRing, options: { replacesLost?: boolean; pool?: Pool } = {}) {
  const openings: GateOpening[] = []
  const unfit: UnfitRing[] = []
  const gate = new KeyRingGate({
    pool,
    keyRing,
    ...options,
    onOpened: (opening) => openings.push(opening),
    onUnfit: (found) => unfit.push(found),
  })
  return { gate, openings, unfit }
}

const many = (count: number, ring: KeyRing) => Array.from({ length: count }, () => ring)

test.each<[string, KeyRing[], boolean, GateOpening | 'shut']>([
  ['no secret is stored', [], false, 'nothingSealed'],
  ['all secrets can be decrypted', [right, right], false, 'opens'],
  ['only the last of 250 secrets can be decrypted', [...many(249, other), right], false, 'opens'],
  ['the ring lacks the key id of the secrets', [other, other], false, 'shut'],
  ['the ring has another key of the same id', [sameIdOtherKey], false, 'shut'],
  ['the ring replaces a lost ring and no secret can be decrypted', [other], true, 'replacesLost'],
  ['the ring replaces a lost ring and one secret can be decrypted', [other, right], true, 'opens'],
])(
  'key ring gate: opens or stays closed as expected when %s',
  async (_case, sealedWith, replacesLost, expected) => {
    await seal(...sealedWith)
    const { gate, openings } = gateOf(right, { replacesLost })
    expect(gate.check().ok).toBe(false)
    await gate.runOnce(live)
    expect(openings).toEqual(expected === 'shut' ? [] : [expected])
    expect(gate.isOpen).toBe(expected !== 'shut')
    expect(gate.check().ok).toBe(expected !== 'shut')
  },
)

test('key ring gate: reports the key ids of the secrets once, and opens when one secret can be decrypted', async () => {
  await seal(other, sameIdOtherKey)
  const { gate, openings, unfit } = gateOf(right)
  await gate.runOnce(live)
  await gate.runOnce(live)
  expect(unfit).toEqual([{ secrets: 2, sealedWith: ['k2', 'k1'] }])
  expect(gate.unfit).toEqual(unfit[0])
  expect(gate.check()).toEqual({
    ok: false,
    reason: 'the key ring decrypts none of 2 stored secrets: see LATCHKEY_KEY_RING',
  })
  await pool.query('TRUNCATE tenant_secrets')
  await seal(other, right)
  await gate.runOnce(live)
  await gate.opened
  expect(openings).toEqual(['opens'])
  expect(gate.unfit).toBeUndefined()
})

test('key ring gate: stays open when all secrets are later encrypted with another ring', async () => {
  await seal(right)
  const { gate, openings } = gateOf(right)
  await gate.runOnce(live)
  await pool.query('TRUNCATE tenant_secrets')
  await seal(other)
  await gate.runOnce(live)
  expect(gate.check()).toEqual({ ok: true })
  expect(openings).toEqual(['opens'])
})

test('key ring gate: tries 2 000 secrets per call, and the next call continues after them', async () => {
  await seal(...many(2_050, other), right)
  const { gate, unfit } = gateOf(right)
  await gate.runOnce(live)
  expect(gate.isOpen).toBe(false)
  await gate.runOnce(live)
  expect(gate.isOpen).toBe(true)
  expect(unfit).toEqual([])
})

test('key ring gate: stays closed while Postgres is unavailable', async () => {
  const away = poolOf('postgres://latchkey:none@127.0.0.1:9/none')
  const { gate } = gateOf(right, { pool: away })
  await expect(gate.runOnce(live)).rejects.toThrow()
  expect(gate.check().ok).toBe(false)
  await away.end()
})
