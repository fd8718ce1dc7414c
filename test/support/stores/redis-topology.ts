import { createClient } from '@redis/client'
import { randomToken } from '#internal/base/index.ts'
import { createTestRedis, type TestRedis, type TestRedisOptions } from '../stores.ts'
import { until } from '../until.ts'

/** Sentinels of one test, with a master and a replica. */
export interface SentinelTopology {
  /** For `openRedis`: `redis+sentinel://…/mymaster`. */
  readonly url: string
  /** Master and replica, in no particular order. */
  readonly data: readonly TestRedis[]
  readonly sentinels: readonly TestRedis[]
  /** Returns the master that the sentinels name. */
  master(): Promise<TestRedis>
  /** Kills the master with SIGKILL and returns it; the sentinels notice within about a second. */
  killMaster(): Promise<TestRedis>
  stop(): Promise<void>
}

/** Shard of a cluster. */
export interface ClusterShard {
  readonly master: TestRedis
  readonly replica: TestRedis | undefined
}

/** Cluster of one test, with three masters. */
export interface ClusterTopology {
  /** For `openRedis`: `redis+cluster://…`. */
  readonly url: string
  /** Initial masters; after a failover a replica may be the master. */
  readonly shards: readonly ClusterShard[]
  stop(): Promise<void>
}

const user = 'latchkey'

/** Returns arguments for a user with the same password on every server; each test server's default password is random. */
function sharedUser(password: string): string[] {
  return ['--user', user, 'on', `>${password}`, '~*', '&*', '+@all']
}

/** Returns arguments with which replication starts at once instead of after the default of five seconds. */
function dataArgs(password: string): string[] {
  const replication = ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1']
  return [...sharedUser(password), '--masteruser', user, '--masterauth', password, ...replication]
}

/** Sends commands to one server as its default user. @throws what the server or the connection says */
export async function command(
  redis: TestRedis,
  ...commands: readonly (readonly string[])[]
): Promise<unknown[]> {
  const client = createClient({ url: redis.url, socket: { reconnectStrategy: false, connectTimeout: 2000 } })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const replies: unknown[] = []
    for (const args of commands) replies.push(await client.sendCommand(args))
    return replies
  } finally {
    client.destroy()
  }
}

/** Starts a single Redis. */
export function startStandalone(options: TestRedisOptions = {}): Promise<TestRedis> {
  return createTestRedis(options)
}

/** Starts one master, one replica and three sentinels, and returns once a failover would succeed (about 3 s). */
export async function startSentinel(): Promise<SentinelTopology> {
  const password = randomToken()
  const sentinelPassword = randomToken()
  const sentinelArgs = ['--sentinel', ...sharedUser(sentinelPassword)]
  const [first, second, ...sentinels] = await Promise.all([
    createTestRedis({ extraArgs: dataArgs(password) }),
    createTestRedis({ extraArgs: dataArgs(password) }),
    ...[1, 2, 3].map(() => createTestRedis({ extraArgs: sentinelArgs })),
  ])
  if (!first || !second) throw new Error('two data servers are started above')
  const data = [first, second]
  await command(second, ['REPLICAOF', '127.0.0.1', String(first.port)])
  for (const sentinel of sentinels) await watch(sentinel, first, { password, sentinelPassword })
  await until('sentinels that know each other and the replica', async () => {
    const known = await Promise.all(sentinels.map((sentinel) => seenBy(sentinel)))
    return known.every(({ replicas, others }) => replicas === 1 && others === 2) || undefined
  })
  const master = () => masterOf(sentinels, data)
  const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(',')
  return {
    url: `redis+sentinel://${user}:${password}@${hosts}/mymaster?sentinelUsername=${user}&sentinelPassword=${sentinelPassword}`,
    data,
    sentinels,
    master,
    killMaster: async () => {
      const killed = await master()
      killed.signal('SIGKILL')
      return killed
    },
    stop: () => stopAll([...sentinels, ...data]),
  }
}

async function watch(
  sentinel: TestRedis,
  master: TestRedis,
  passwords: { password: string; sentinelPassword: string },
): Promise<void> {
  const set = (...pairs: string[]) => ['SENTINEL', 'SET', 'mymaster', ...pairs]
  await command(
    sentinel,
    ['SENTINEL', 'CONFIG', 'SET', 'sentinel-user', user],
    ['SENTINEL', 'CONFIG', 'SET', 'sentinel-pass', passwords.sentinelPassword],
    ['SENTINEL', 'MONITOR', 'mymaster', '127.0.0.1', String(master.port), '2'],
    set('auth-user', user, 'auth-pass', passwords.password),
    set('down-after-milliseconds', '1000', 'failover-timeout', '2000'),
  )
}

async function seenBy(sentinel: TestRedis): Promise<{ replicas: number; others: number }> {
  const [facts] = (await command(sentinel, ['SENTINEL', 'MASTER', 'mymaster'])) as [Record<string, string>]
  return { replicas: Number(facts['num-slaves']), others: Number(facts['num-other-sentinels']) }
}

async function masterOf(sentinels: readonly TestRedis[], data: readonly TestRedis[]): Promise<TestRedis> {
  const [asked] = sentinels
  if (!asked) throw new Error('no sentinel was started')
  const [address] = await command(asked, ['SENTINEL', 'get-master-addr-by-name', 'mymaster'])
  const port = Array.isArray(address) ? Number(address[1]) : 0
  const found = data.find((redis) => redis.port === port)
  if (!found) throw new Error('the sentinels name an unknown master')
  return found
}

/**
 * Starts three masters, optionally with a replica each; returns once all nodes agree on the slots (about 2 s). The loss of one shard
 * leaves the others in service.
 */
export async function startCluster(options: { replicas?: boolean } = {}): Promise<ClusterTopology> {
  const password = randomToken()
  const extraArgs = [
    ...dataArgs(password),
    '--cluster-node-timeout',
    '1000',
    '--cluster-require-full-coverage',
    'no',
    '--cluster-replica-validity-factor',
    '0',
  ]
  const count = options.replicas ? 6 : 3
  const nodes = await Promise.all(
    Array.from({ length: count }, () => createTestRedis({ cluster: true, extraArgs })),
  )
  const masters = nodes.slice(0, 3)
  const replicas = nodes.slice(3)
  await joinNodes(nodes)
  await Promise.all(masters.map((master, index) => command(master, slotsOf(index))))
  await Promise.all(replicas.map((replica, index) => follow(replica, masters[index])))
  await until('a cluster whose nodes agree', async () => {
    const seen = await Promise.all(nodes.map((node) => isWhole(node, replicas.length)))
    return seen.every(Boolean) || undefined
  })
  return {
    url: `redis+cluster://${user}:${password}@${masters.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    shards: masters.map((master, index) => ({ master, replica: replicas[index] })),
    stop: () => stopAll(nodes),
  }
}

/** Joins the nodes; one CLUSTER MEET per node suffices, since gossip spreads it. */
async function joinNodes(nodes: readonly TestRedis[]): Promise<void> {
  const [first, ...rest] = nodes
  if (!first) throw new Error('the cluster has no nodes')
  await Promise.all(
    nodes.map((node, index) => command(node, ['CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1)])),
  )
  const [bus] = await command(first, ['CONFIG', 'GET', 'cluster-port'])
  const busPort = (bus as Record<string, string>)['cluster-port'] ?? ''
  const meet = ['CLUSTER', 'MEET', '127.0.0.1', String(first.port), busPort]
  await Promise.all(rest.map((node) => command(node, meet)))
  await until('nodes that know each other', async () => {
    const known = await Promise.all(nodes.map((node) => clusterInfo(node, 'cluster_known_nodes')))
    return known.every((value) => value === String(nodes.length)) || undefined
  })
}

function slotsOf(index: number): string[] {
  const bounds = [0, 5461, 10_923, 16_384]
  return ['CLUSTER', 'ADDSLOTSRANGE', String(bounds[index]), String((bounds[index + 1] ?? 0) - 1)]
}

async function follow(replica: TestRedis, master: TestRedis | undefined): Promise<void> {
  if (!master) throw new Error('a replica has no master')
  const [id] = await command(master, ['CLUSTER', 'MYID'])
  await command(replica, ['CLUSTER', 'REPLICATE', String(id)])
}

async function isWhole(node: TestRedis, replicaCount: number): Promise<boolean> {
  if ((await clusterInfo(node, 'cluster_state')) !== 'ok') return false
  if ((await clusterInfo(node, 'cluster_slots_ok')) !== '16384') return false
  const [info] = await command(node, ['INFO', 'replication'])
  if (replicaCount === 0) return true
  return /master_link_status:up|slave0:.*state=online/.test(String(info))
}

async function clusterInfo(node: TestRedis, field: string): Promise<string | undefined> {
  const [info] = await command(node, ['CLUSTER', 'INFO'])
  return new RegExp(`${field}:(\\w+)`).exec(String(info))?.[1]
}

async function stopAll(servers: readonly TestRedis[]): Promise<void> {
  for (const server of servers) server.signal('SIGKILL')
  await Promise.all(servers.map((server) => server.stop()))
}
