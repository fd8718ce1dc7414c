import { createClient, createCluster, createSentinel } from 'redis'
import { backoffMs } from '#internal/base/index.ts'
import type { ChannelListener } from './connection.ts'
import type { RedisAddress } from './url.ts'

/** The few calls that the three forms of node-redis are used for. Nothing here has a deadline: its caller sets one. */
export interface RedisDriver {
  connect(): Promise<unknown>
  isReady(): boolean
  /** Sends one command to the node that holds `key`. */
  send(key: string, args: readonly string[]): Promise<unknown>
  /** Sends one command to every master. */
  sendToMasters(args: readonly string[]): Promise<readonly unknown[]>
  subscribe(channel: string, listener: ChannelListener): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  destroy(): void
}

const connectTimeoutMs = 1000
/** A socket that brought nothing for this long is closed, which the ping below keeps from happening to a healthy one. */
const socketTimeoutMs = 3000
const pingIntervalMs = 1000
const reconnectBounds = { firstMs: 50, maxMs: 1000 }
/** Commands that wait for a reply in one client; more are refused by it at once. */
const commandsQueuedMax = 20_000

const noTimeout = { timeout: 0 }

function reconnectStrategy(retries: number): number {
  return backoffMs(retries, reconnectBounds, Math.random())
}

function clientOptions(address: RedisAddress, credentials: { username?: string; password?: string }) {
  return {
    ...credentials,
    database: address.database,
    disableOfflineQueue: true,
    // The client would make an abort signal for each command; the deadline is ours, and one timer serves all commands.
    commandOptions: noTimeout,
    commandsQueueMaxLength: commandsQueuedMax,
    pingInterval: pingIntervalMs,
    maintNotifications: 'disabled' as const,
    socket: {
      connectTimeout: connectTimeoutMs,
      socketTimeout: socketTimeoutMs,
      keepAlive: true,
      noDelay: true,
      reconnectStrategy,
      ...(address.tls && { tls: true as const }),
    },
  }
}

function masterCredentials(address: RedisAddress) {
  return {
    ...(address.username !== undefined && { username: address.username }),
    ...(address.password !== undefined && { password: address.password }),
  }
}

/** Makes the driver for an address, not yet connected. `onError` hears of every failed connection attempt. */
export function createDriver(address: RedisAddress, onError: (error: unknown) => void): RedisDriver {
  switch (address.mode) {
    case 'standalone':
      return standaloneDriver(address, onError)
    case 'sentinel':
      return sentinelDriver(address, onError)
    case 'cluster':
      return clusterDriver(address, onError)
    default:
      return address.mode satisfies never
  }
}

function standaloneDriver(address: RedisAddress, onError: (error: unknown) => void): RedisDriver {
  const options = clientOptions(address, masterCredentials(address))
  const [node] = address.nodes
  const client = createClient({ ...options, socket: { ...options.socket, ...node } })
  const subscriber = client.duplicate()
  client.on('error', onError)
  subscriber.on('error', onError)
  return {
    connect: () => Promise.all([client.connect(), subscriber.connect()]),
    isReady: () => client.isReady,
    send: (_key, args) => client.sendCommand(args),
    sendToMasters: async (args) => [await client.sendCommand(args)],
    subscribe: (channel, listener) => subscriber.sSubscribe(channel, listener),
    unsubscribe: (channel) => subscriber.sUnsubscribe(channel),
    destroy: () => {
      if (client.isOpen) client.destroy()
      if (subscriber.isOpen) subscriber.destroy()
    },
  }
}

function sentinelDriver(address: RedisAddress, onError: (error: unknown) => void): RedisDriver {
  const sentinel = createSentinel({
    name: address.masterName ?? '',
    commandOptions: noTimeout,
    sentinelRootNodes: [...address.nodes],
    nodeClientOptions: clientOptions(address, masterCredentials(address)),
    sentinelClientOptions: clientOptions(
      { ...address, database: 0 },
      {
        ...(address.sentinelUsername !== undefined && { username: address.sentinelUsername }),
        ...(address.sentinelPassword !== undefined && { password: address.sentinelPassword }),
      },
    ),
    // The client sends a command again after a lost connection; our scripts may be repeated, but not without end.
    maxCommandRediscovers: 1,
    scanInterval: 1000,
    passthroughClientErrorEvents: true,
  })
  sentinel.on('error', onError)
  return {
    connect: () => sentinel.connect(),
    isReady: () => sentinel.isReady,
    send: (_key, args) => sentinel.sendCommand(false, [...args]),
    sendToMasters: async (args) => [await sentinel.sendCommand(false, [...args])],
    subscribe: (channel, listener) => sentinel.sSubscribe(channel, listener),
    unsubscribe: (channel) => sentinel.sUnsubscribe(channel),
    destroy: () => {
      if (sentinel.isOpen) void sentinel.destroy().catch(onError)
    },
  }
}

function clusterDriver(address: RedisAddress, onError: (error: unknown) => void): RedisDriver {
  const defaults = clientOptions(address, masterCredentials(address))
  const cluster = createCluster({
    rootNodes: address.nodes.map((node) => ({ ...defaults, socket: { ...defaults.socket, ...node } })),
    defaults,
    commandOptions: noTimeout,
    maxCommandRedirections: 4,
    topologyRefreshOnReconnectionAttemptStrategy: 500,
  })
  cluster.on('error', onError)
  return {
    connect: () => cluster.connect(),
    isReady: () => cluster.isReady,
    send: (key, args) => cluster.sendCommand(key, false, [...args]),
    sendToMasters: (args) =>
      Promise.all(
        cluster.masters.map(async (master) => (await cluster.nodeClient(master)).sendCommand(args)),
      ),
    subscribe: (channel, listener) => cluster.sSubscribe(channel, listener),
    unsubscribe: (channel) => cluster.sUnsubscribe(channel),
    destroy: () => {
      if (cluster.isOpen) cluster.destroy()
    },
  }
}
