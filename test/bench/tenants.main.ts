/**
 * Measures the API with two tenants and with many: the time from its start to readiness, its resident memory, and its rate of acquisitions
 * compared with the bare server. `--tenants N` (default 100 000 in all); `--rounds N` (default 6) rounds of `--seconds S` (default 2). Exits with
 * code 1 if a bound is missed.
 */
import { parseArgs } from 'node:util'
import type { TenantId } from '#internal/base/index.ts'
import { createPool } from '#internal/storage/index.ts'
import { parseKeyRing } from '#internal/tenants/index.ts'
import { acquirePairing, compare, connections } from './compare.ts'
import { keyRing, machine, residentBytes } from './processes.ts'
import { type Stack, startStack } from './stack.ts'

const { values } = parseArgs({
  options: {
    tenants: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '6' },
    seconds: { type: 'string', default: '2' },
    profile: { type: 'string' },
  },
})
const tenants = Number(values.tenants)
const sizes = { rounds: Number(values.rounds), durationMs: Number(values.seconds) * 1000, warmRounds: 2 }
/** Tenants of the stack. A process serves 100 000 in all. */
const ownTenants = 2
const readyMsMax = 3_000
/** Maximum resident memory when ready. Under load the heap grows to twice its live objects before it is collected. */
const readyMbMax = 250
const loadedMbMax = 450
/** Minimum rate with many tenants, divided by the one with two tenants. */
const rateShareMin = 0.95

const stack = await startStack({ profileDir: values.profile })
try {
  const one = await measure(stack)
  await addTenants(stack.databaseUrl, tenants - ownTenants)
  await stack.restartApi()
  const many = await measure(stack)
  console.log(`\n${machine()}; ${connections} connections, ${sizes.rounds} rounds of ${values.seconds} s\n`)
  console.log('| | ready in ms | resident MB when ready | resident MB after load | acquisitions, of bare |')
  console.log('|---|---|---|---|---|')
  for (const [name, { readyMs, idleMb, loadedMb, rateRatio }] of [
    ['two tenants', one],
    [`${tenants} tenants`, many],
  ] as const)
    console.log(`| ${[name, Math.round(readyMs), idleMb, loadedMb, rateRatio.toFixed(2)].join(' | ')} |`)
  const missed = [
    ...(many.readyMs <= readyMsMax ? [] : [`ready in ${Math.round(many.readyMs)} ms, maximum ${readyMsMax}`]),
    ...(many.idleMb <= readyMbMax ? [] : [`${many.idleMb} MB resident when ready, maximum ${readyMbMax}`]),
    ...(many.loadedMb <= loadedMbMax
      ? []
      : [`${many.loadedMb} MB resident after load, maximum ${loadedMbMax}`]),
    ...(many.rateRatio >= rateShareMin * one.rateRatio ? [] : ['fewer acquisitions than with two tenants']),
  ]
  for (const text of missed) console.error(`missed: ${text}`)
  if (missed.length > 0) process.exitCode = 1
} finally {
  await stack.stop()
}

async function measure(parts: Stack) {
  const { readyMs, pid } = parts.api
  const idleMb = await residentMb(pid)
  const pairing = acquirePairing(parts, '/same-size')
  const { rateRatio } = await compare(parts, pairing, sizes)
  return { readyMs, idleMb, loadedMb: await residentMb(pid), rateRatio }
}

async function residentMb(pid: number): Promise<number> {
  return Math.round((await residentBytes(pid)) / 1_000_000)
}

/** Adds tenants like the one of the benchmark, each with a key and a secret of its own, as the operator would have stored them. */
async function addTenants(databaseUrl: string, count: number): Promise<void> {
  const bounds = { connectionsMax: 1, queryTimeoutMs: 120_000, connectTimeoutMs: 5000 }
  const pool = createPool({ url: databaseUrl, applicationName: 'bench', ...bounds })
  const ids = `SELECT 'ten_' || substr(md5(i::text), 1, 26) AS id, i FROM generate_series(1, $1::integer) i`
  await pool.query(
    `INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, conditions, version, resource_created_at, created_at, updated_at)
     SELECT n.id, n.id, 'many', 'many-' || n.i, 'many-' || n.i, false, t.spec, t.conditions, t.version, now(), now(), now()
     FROM (${ids}) n, tenants t WHERE t.slug = 'bench'`,
    [count],
  )
  await pool.query(
    `INSERT INTO api_keys (sha256, tenant_id, name, scopes, created_at, prefix)
     SELECT sha256(n.id::bytea), n.id, k.name, k.scopes, now(), k.prefix
     FROM (${ids}) n, api_keys k WHERE k.tenant_id = (SELECT id FROM tenants WHERE slug = 'bench')`,
    [count],
  )
  // Encrypts the secrets as the operator does, because a process is ready only after its key ring has decrypted a secret.
  const ring = parseKeyRing(keyRing)
  if (ring.kind === 'invalid') throw new Error(ring.message)
  const { rows } = await pool.query<{ id: TenantId }>("SELECT id FROM tenants WHERE namespace = 'many'")
  const sealed = rows.map(({ id }) =>
    ring.keyRing.seal({ tenantId: id, field: 'callback' }, 'whsec_of_a_tenant'),
  )
  const hex = (pick: (one: (typeof sealed)[number]) => Uint8Array) =>
    sealed.map((one) => Buffer.from(pick(one)).toString('hex'))
  await pool.query(
    `INSERT INTO tenant_secrets (tenant_id, field, ordinal, key_id, nonce, ciphertext, source_name, source_version, created_at)
     SELECT s.id, 'callback', 0, $1, decode(s.nonce, 'hex'), decode(s.ciphertext, 'hex'), 'many', '1', now()
     FROM unnest($2::text[], $3::text[], $4::text[]) AS s(id, nonce, ciphertext)`,
    [
      sealed[0]?.keyId,
      rows.map(({ id }) => id),
      hex(({ nonce }) => nonce),
      hex(({ ciphertext }) => ciphertext),
    ],
  )
  await pool.query('ANALYZE tenants, api_keys, tenant_secrets')
  await pool.end()
}
