import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { openReplayLab, type ReplayLab } from '#test/support/events/replay-lab.ts'
import { listReplays, readReplay } from './job.ts'

let lab: ReplayLab

beforeAll(async () => {
  lab = await openReplayLab()
  return () => lab.close()
})
beforeEach(() => lab.reset())

test('list of replays: returns pages, newest first, within the tenant', async () => {
  const mine = [
    await lab.started(),
    await lab.started({ idempotencyKey: 'b', filter: { ...lab.anHour(), fromMs: 1 } }),
  ]
  const other = (await lab.addTenant()).id
  const others = await lab.started({ filter: { ...lab.anHour(), tenantId: other } })
  const first = await listReplays(lab.reader, { limit: 2 })
  expect(first.replays.map(({ id }) => id)).toEqual(
    [others.id, ...mine.map(({ id }) => id)].toSorted().toReversed().slice(0, 2),
  )
  const second = await listReplays(lab.reader, { limit: 2, ...(first.next && { after: first.next }) })
  expect(second.replays).toHaveLength(1)
  expect(second.next).toBeUndefined()
  const own = await listReplays(lab.reader, { tenantId: lab.tenantId, limit: 10 })
  expect(new Set(own.replays.map(({ id }) => id))).toEqual(new Set(mine.map(({ id }) => id)))
  expect(await readReplay(lab.reader, { id: others.id, tenantId: lab.tenantId })).toBeUndefined()
})
