import { createTestRedis, type TestRedis } from '../stores.ts'
import { until } from '../until.ts'
import { command } from './redis-topology.ts'

/** Starts a replica of a test's server; returns once it is synchronized (about 1 s). Start the master with `replicatedArgs`. */
export async function startReplicaOf(master: TestRedis): Promise<TestRedis> {
  const replica = await createTestRedis()
  await command(
    replica,
    ['CONFIG', 'SET', 'masterauth', master.password],
    ['REPLICAOF', '127.0.0.1', String(master.port)],
  )
  await until('a replica that follows', async () => {
    const [info] = await command(master, ['INFO', 'replication'])
    return /slave\d+:.*state=online/.test(String(info)) || undefined
  })
  return replica
}

/** Arguments of a master that starts replication at once instead of after the default of five seconds. */
export const replicatedArgs: readonly string[] = ['--repl-diskless-sync-delay', '0']
