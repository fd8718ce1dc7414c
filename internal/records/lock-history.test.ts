import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import type { TenantId } from '#internal/base/index.ts'
import { recordDurabilities } from '#internal/tenants/index.ts'
import { labStartMs, openRecordLab, type RecordLab } from '#test/support/records/record-lab.ts'
import { acquireInput, lockMs, saveInput } from '#test/support/records/record-steps.ts'
import type { LockNote } from './lock-history.ts'
import { joinRecord, type RecordAddress } from './record.ts'
import type { AcquireInput } from './store.ts'

const record = joinRecord(201, '{}', '"r"')

/** Fence of a lock acquired `afterMs` after the start: the microsecond of its acquisition. In Postgres up to 15 more. */
const fence = (afterMs: number) => (labStartMs + afterMs) * 1000

describe.each(recordDurabilities)('notes for the lock history of records in %s', (durability) => {
  let lab: RecordLab
  let tenantId: TenantId
  let noted: { readonly address: RecordAddress; readonly note: LockNote }[] = []
  beforeAll(async () => {
    lab = await openRecordLab({ durability, note: (address, note) => noted.push({ address, note }) })
  }, 30_000)
  afterAll(() => lab.close())
  beforeEach(async () => {
    tenantId = await lab.createTenant()
    noted = []
  })

  const acquire = (lockToken: string, changes: Partial<AcquireInput> = {}) =>
    lab.store.acquire(acquireInput(tenantId, { lockToken, ...changes }))
  const save = (lockToken: string, text = record) =>
    lab.store.save(saveInput(tenantId, { lockToken, record: text }))
  const remove = (lockToken: string) => lab.store.remove(acquireInput(tenantId), lockToken)
  const extend = (lockToken: string, ms: number | null = null) =>
    lab.store.extend(acquireInput(tenantId), lockToken, ms)
  const at = (ms: number) => lab.setClock(tenantId, labStartMs + ms)

  test.each<[string, () => Promise<unknown>, LockNote[]]>([
    ['an acquired lock', () => acquire('A'), [{ kind: 'acquired', fence: fence(0), heldMs: lockMs }]],
    [
      'a re-entry by the same attempt',
      async () => {
        await acquire('A', { attemptId: 'a' })
        await at(70_000)
        await acquire('B', { attemptId: 'a', lockMs: 5_000 })
      },
      [
        { kind: 'acquired', fence: fence(0), heldMs: lockMs },
        { kind: 'extended', fence: fence(0), atMs: labStartMs + 70_000, heldMs: 5_000 },
      ],
    ],
    [
      'each extension',
      async () => {
        await acquire('A')
        await at(10)
        await extend('A', 900_000)
        await extend('A')
        await extend('B')
      },
      [
        { kind: 'acquired', fence: fence(0), heldMs: lockMs },
        { kind: 'extended', fence: fence(0), atMs: labStartMs + 10, heldMs: 900_000 },
        { kind: 'extended', fence: fence(0), atMs: labStartMs + 10, heldMs: lockMs },
      ],
    ],
    [
      'a completion with its status, and for a repeated save',
      async () => {
        await acquire('A')
        await at(30)
        await save('A')
        await at(40)
        await save('A')
        await save('A', joinRecord(500, '{}', '"other"'))
        await save('B')
      },
      [
        { kind: 'acquired', fence: fence(0), heldMs: lockMs },
        { kind: 'completed', fence: fence(0), atMs: labStartMs + 30, status: 201 },
        { kind: 'completed', fence: fence(0), atMs: labStartMs + 40, status: 201 },
      ],
    ],
    [
      'a save without a lock, as a completed lock',
      () => save(''),
      [{ kind: 'completed', fence: fence(0), atMs: labStartMs, status: 201 }],
    ],
    [
      'a takeover, but not for its late holder',
      async () => {
        await acquire('A')
        await at(lockMs + 1)
        await acquire('B')
        await save('A')
        await remove('A')
      },
      [
        { kind: 'acquired', fence: fence(0), heldMs: lockMs },
        { kind: 'acquired', fence: fence(lockMs + 1), heldMs: lockMs },
        { kind: 'taken_over', fence: fence(0), atMs: labStartMs + lockMs + 1 },
      ],
    ],
    [
      'a release, but not for a takeover of its mark',
      async () => {
        await acquire('A')
        await at(lockMs + 1)
        await acquire('B')
        await at(lockMs + 5)
        await remove('B')
        await remove('B')
        await acquire('C')
      },
      [
        { kind: 'acquired', fence: fence(0), heldMs: lockMs },
        { kind: 'acquired', fence: fence(lockMs + 1), heldMs: lockMs },
        { kind: 'taken_over', fence: fence(0), atMs: labStartMs + lockMs + 1 },
        { kind: 'released', fence: fence(lockMs + 1), atMs: labStartMs + lockMs + 5 },
        { kind: 'acquired', fence: fence(lockMs + 5), heldMs: lockMs },
      ],
    ],
    [
      'a lock, but not for busy checks, replays, reads and removals of records',
      async () => {
        await acquire('A')
        await acquire('B')
        await save('A')
        await acquire('C')
        await lab.store.fetch(acquireInput(tenantId))
        await remove('')
      },
      [
        { kind: 'acquired', fence: fence(0), heldMs: lockMs },
        { kind: 'completed', fence: fence(0), atMs: labStartMs, status: 201 },
      ],
    ],
  ])('lock history: notes are recorded for %s', async (_name, work, expected) => {
    await work()
    expect(noted.map(({ note }) => ({ ...note, fence: Math.floor(note.fence / 1000) * 1000 }))).toEqual(
      expected,
    )
    for (const { address } of noted) expect(address).toMatchObject({ tenantId, scope: 'orders', key: 'k-1' })
  })
})
