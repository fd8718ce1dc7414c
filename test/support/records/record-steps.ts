import type { TenantId } from '#internal/base/index.ts'
import { type AcquireInput, entryKey, type SaveInput } from '#internal/records/store.ts'
import { labStartMs, type RecordLab } from './record-lab.ts'

/** Duration of a lock of `acquireInput` in ms. */
export const lockMs = 60_000
/** Ttl of a record of `acquireInput` in ms. */
export const ttlMs = 7_200_000
/** Record whose body is a name. */
export const result = (name: string) => `{"status":200,"headers":{},"body":"${name}"}`

/** Returns an acquisition of one key. */
export function acquireInput(tenantId: TenantId, changes: Partial<AcquireInput> = {}): AcquireInput {
  return {
    tenantId,
    scope: 'orders',
    key: 'k-1',
    ttlMs,
    lockMs,
    lockToken: 'N',
    fingerprint: 'f1',
    attemptId: '',
    waits: false,
    limits: { locksPerMinute: null, locksPerMonth: null, recordBytes: null },
    ...changes,
  }
}

/** Returns a save of the same key without a lock. */
export function saveInput(tenantId: TenantId, changes: Partial<SaveInput> = {}): SaveInput {
  return {
    tenantId,
    scope: 'orders',
    key: 'k-1',
    lockToken: '',
    ttlMs: null,
    defaultTtlMs: 86_400_000,
    record: result('r1'),
    ...changes,
  }
}

/** States of a key, and operations on it, on the store of a lab. */
export function createSteps(lab: () => RecordLab) {
  /** State of an entry, read directly from the store. */
  async function readState(tenantId: TenantId): Promise<string> {
    const entry = await readEntry(lab(), tenantId)
    if (!entry) return 'none'
    const { token, heldUntilMs, isTakenOver, record } = entry
    if (record !== undefined) return `record of ${token || 'nobody'}: ${JSON.parse(record).body}`
    if (token === '') return 'released'
    const nowMs = Number(await lab().raw.get(`{${tenantId}}:clock`))
    return `${heldUntilMs > nowMs ? 'held' : 'over'} by ${token}${isTakenOver ? ', taken over' : ''}`
  }

  const acquireAs = (tenantId: TenantId, lockToken: string, attemptId: string) =>
    lab().store.acquire(acquireInput(tenantId, { lockToken, attemptId }))
  const afterLock = (tenantId: TenantId, locks: number) =>
    lab().setClock(tenantId, labStartMs + locks * (lockMs + 1))

  /** Steps that lead to each state. A is the first holder, and B has taken over. */
  const states: Record<string, (tenantId: TenantId) => Promise<unknown>> = {
    'no entry': async () => undefined,
    'held by A': (t) => acquireAs(t, 'A', 'a'),
    'over, A': async (t) => {
      await acquireAs(t, 'A', 'a')
      await afterLock(t, 1)
    },
    'taken over by B': async (t) => {
      await acquireAs(t, 'A', 'a')
      await afterLock(t, 1)
      await acquireAs(t, 'B', 'b')
    },
    'taken over, B over too': async (t) => {
      await acquireAs(t, 'A', 'a')
      await afterLock(t, 1)
      await acquireAs(t, 'B', 'b')
      await afterLock(t, 2)
    },
    'released by B': async (t) => {
      await acquireAs(t, 'A', 'a')
      await afterLock(t, 1)
      await acquireAs(t, 'B', 'b')
      await lab().store.remove(acquireInput(t), 'B')
    },
    'record of A': async (t) => {
      await acquireAs(t, 'A', 'a')
      await lab().store.save(saveInput(t, { lockToken: 'A' }))
    },
    'record of nobody': (t) => lab().store.save(saveInput(t)),
  }

  const acquire = (changes: Partial<AcquireInput>) => async (tenantId: TenantId) => {
    const outcome = await lab().store.acquire(acquireInput(tenantId, changes))
    switch (outcome.kind) {
      case 'locked':
        return `locked ${outcome.lockToken}${outcome.takenOver ? ', taken over' : ''}`
      case 'hit':
        return `hit ${JSON.parse(outcome.record).body}`
      default:
        return outcome.kind
    }
  }
  const save = (changes: Partial<SaveInput>) => async (tenantId: TenantId) =>
    (await lab().store.save(saveInput(tenantId, changes))).kind
  const remove = (lockToken: string) => async (tenantId: TenantId) =>
    (await lab().store.remove(acquireInput(tenantId), lockToken)) ? 'existed' : 'nothing'
  const extend = (lockToken: string) => async (tenantId: TenantId) =>
    (await lab().store.extend(acquireInput(tenantId), lockToken, 30_000)).kind

  /** Operations in each state; N is a new token. */
  const steps: Record<string, (tenantId: TenantId) => Promise<string>> = {
    acquire: acquire({}),
    'acquire, attempt a': acquire({ attemptId: 'a' }),
    'acquire, attempt b': acquire({ attemptId: 'b' }),
    'acquire, token A again': acquire({ lockToken: 'A' }),
    'acquire, other fingerprint': acquire({ fingerprint: 'f2' }),
    'acquire, own attempt, other fingerprint': acquire({ attemptId: 'a', fingerprint: 'f2' }),
    'acquire, no fingerprint': acquire({ fingerprint: '' }),
    'save as A': save({ lockToken: 'A' }),
    'save as B': save({ lockToken: 'B' }),
    'save as nobody known': save({ lockToken: 'X' }),
    'save without token': save({}),
    'save another as A': save({ lockToken: 'A', record: result('r2') }),
    'save another without token': save({ record: result('r2') }),
    remove: remove(''),
    'release as A': remove('A'),
    'release as B': remove('B'),
    'extend as A': extend('A'),
    'extend as B': extend('B'),
    fetch: async (tenantId) => {
      const found = await lab().store.fetch(acquireInput(tenantId))
      return found.kind === 'hit' ? `hit ${JSON.parse(found.record).body}` : found.kind
    },
  }

  return { readState, states, steps }
}

/** Entry of the key, read directly from the store. */
export interface LabEntry {
  readonly token: string
  readonly heldUntilMs: number
  readonly isTakenOver: boolean
  /** True if the end of the lock is published. */
  readonly isWaited: boolean
  readonly record: string | undefined
}

/** Reads the entry of the key; undefined if there is none. */
export async function readEntry(lab: RecordLab, tenantId: TenantId): Promise<LabEntry | undefined> {
  if (lab.durability === 'postgres') return readRow(lab, tenantId)
  const text = await lab.raw.get(entryKey(acquireInput(tenantId)))
  if (text === null) return undefined
  const [kind, ...fields] = text.split('\n')
  const none = { heldUntilMs: 0, isTakenOver: false, isWaited: false }
  if (kind === 'R') return { ...none, token: fields[1] ?? '', record: fields[5] }
  const [until, token = '', , , , takenOver, waited] = fields
  return {
    token,
    heldUntilMs: Number(until),
    record: undefined,
    isTakenOver: takenOver === '1',
    isWaited: waited === '1',
  }
}

async function readRow(lab: RecordLab, tenantId: TenantId): Promise<LabEntry | undefined> {
  const { rows } = await lab.pool.query(
    `SELECT token, held_until, taken_over, waited, record FROM record_entries
     WHERE tenant_id = $1 AND scope = 'orders' AND key = 'k-1' AND expires_at > record_clock() / 1000`,
    [tenantId],
  )
  const [row] = rows
  if (rows.length > 1) throw new Error('a key has two entries')
  return (
    row && {
      token: row.token,
      heldUntilMs: row.held_until,
      isTakenOver: row.taken_over,
      isWaited: row.waited,
      record: row.record ?? undefined,
    }
  )
}

/** Returns the milliseconds after which an entry expires. */
export async function millisecondsLeft(lab: RecordLab, tenantId: TenantId, key = 'k-1'): Promise<number> {
  if (lab.durability === 'redis') return lab.raw.pttl(entryKey({ tenantId, scope: 'orders', key }))
  const { rows } = await lab.pool.query(
    'SELECT expires_at - record_clock() / 1000 AS ms FROM record_entries WHERE tenant_id = $1 AND key = $2',
    [tenantId, key],
  )
  return rows[0]?.ms ?? -2
}
