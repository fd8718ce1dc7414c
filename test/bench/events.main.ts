/**
 * Measures reads over ten million events (lists by every filter, one event, a payload, the dashboard's pages), and retention: a day's
 * partitions dropped and dedupe keys removed during intake. Loads `--events N` (default 10 000 000) into a new database, which takes
 * some minutes and about 15 GB of disk. `--calls N` sets the calls of each list (default 100), `--rate N` the events per second during
 * drops (default 100). Exits with code 1 if a bound is missed.
 */
import { parseArgs } from 'node:util'
import { parseTenantId } from '#internal/base/index.ts'
import { measureDrops } from './events/drop.ts'
import { measureReads } from './events/lists.ts'
import { measurePages } from './events/pages.ts'
import { seedEvents } from './events/seed.ts'
import { machine } from './processes.ts'
import { boundsTable, type Held, isKept } from './webhooks/bounds.ts'
import { seedWaiting } from './webhooks/seed.ts'
import { startStack } from './webhooks/stack.ts'

const { values } = parseArgs({
  options: {
    events: { type: 'string', default: '10000000' },
    calls: { type: 'string', default: '100' },
    rate: { type: 'string', default: '100' },
  },
})
const waitingCount = 3_000

const stack = await startStack()
try {
  const { observer, databaseUrl } = stack
  const tenantIds = [...stack.tenantIds.values()].map(parseTenantId)
  const startedAt = performance.now()
  const count = Number(values.events)
  const { ids, expiredDays } = await seedEvents(observer, { count, tenantIds, lanes: 2 })
  console.log(`${count} events loaded in ${((performance.now() - startedAt) / 1000).toFixed(0)} s`)
  const { rows } = await observer.query<{ size: string }>(
    'SELECT pg_size_pretty(pg_database_size(current_database())) AS size',
  )
  console.log(`${rows[0]?.size} in the database, ${expiredDays.length} full days have expired\n`)
  for (const tenantId of tenantIds.slice(0, 2)) await seedWaiting(observer, { tenantId, count: waitingCount })
  const reads = await measureReads({
    databaseUrl,
    tenantIds,
    ids,
    calls: Number(values.calls),
    nowMs: Date.now(),
  })
  console.log(`${reads.table.join('\n')}\n`)
  const slug = stack.tenantIds.keys().next().value ?? ''
  const { redisUrl } = stack
  const pages = await measurePages({
    databaseUrl,
    redisUrl,
    slug,
    eventIds: ids,
    calls: Number(values.calls),
  })
  console.log(`${pages.table.join('\n')}\n`)
  const drops = await measureDrops(stack, { days: expiredDays, rate: Number(values.rate) })
  console.log(`${drops.table.join('\n')}\n`)
  console.log(
    `${machine()}; Postgres with fsync and 1 GB of shared buffers, pages of 50, one call at a time\n`,
  )
  const held = [...reads.held, ...pages.held, ...drops.held]
  const missed = held.filter((each) => !isKept(each))
  const slowest = reads.held.filter(isList).toSorted((one, other) => other.value - one.value)[0]
  // Prints only the slowest list, and all lists that miss their bounds.
  const shown = held.filter((each) => !isList(each) || each === slowest || missed.includes(each))
  console.log(boundsTable(shown).join('\n'))
  if (missed.length > 0) process.exitCode = 1
} finally {
  await stack.stop()
}
// Exits explicitly, since kept-alive connections to ended processes would delay the exit.
process.exit()

function isList({ name }: Held): boolean {
  return name.startsWith('list: ')
}
