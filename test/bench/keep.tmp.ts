import { parseTenantId } from '#internal/base/index.ts'
import { seedEvents } from './events/seed.ts'
import { measureReads } from './events/lists.ts'
import { seedWaiting } from './webhooks/seed.ts'
import { startStack } from './webhooks/stack.ts'
const stack = await startStack()
const tenantIds = [...stack.tenantIds.values()].map(parseTenantId)
const t=performance.now()
const { ids } = await seedEvents(stack.observer, { count: Number(process.argv[2]), tenantIds, lanes: 2 })
for (const tenantId of tenantIds.slice(0, 2)) await seedWaiting(stack.observer, { tenantId, count: 3000 })
console.log('seeded', Math.round(performance.now()-t), stack.databaseUrl)
await Bun.write('/tmp/keep.json', JSON.stringify({ url: stack.databaseUrl, tenantIds, ids }))
const reads = await measureReads({ databaseUrl: stack.databaseUrl, tenantIds, ids, calls: 60, nowMs: Date.now() })
console.log(reads.table.join('\n'))
const stop = Promise.withResolvers<void>()
const i = setInterval(async () => { if (await Bun.file('/tmp/keep.stop').exists()) { clearInterval(i); stop.resolve() } }, 1000)
await stop.promise
await stack.stop()
