import { ClusterDriver } from './cluster.ts'
import { RedisPeer } from './link.ts'
import { SentinelDriver } from './sentinel.ts'
import type { RedisServers } from './session.ts'
import { Subscriptions } from './subscriptions.ts'

/**
 * Sends commands to Redis in any of its modes. Connects and reconnects automatically. Rejects a call immediately when no connection exists.
 * A sent command can wait for the lifetime of its connection, so callers must set a deadline.
 */
export interface RedisDriver {
  /** Sends a command to the server that holds `key`. @throws RedisUnavailable | ErrorReply */
  send(key: string, args: readonly string[]): Promise<unknown>
  /** Sends commands to the server that holds `key`, like `RedisSession.sendTogether`. @throws RedisUnavailable | ErrorReply */
  sendTogether(key: string, commands: readonly (readonly string[])[]): Promise<unknown[]>
  /** @throws RedisUnavailable if no master is connected */
  sendToMasters(args: readonly string[]): Promise<readonly unknown[]>
  readonly channels: Subscriptions
  close(): void
}

/** Creates the driver for an address. Calls `onError` for every failed attempt to connect and every lost connection. */
export function createDriver(address: RedisServers, onError: (error: unknown) => void): RedisDriver {
  switch (address.mode) {
    case 'standalone':
      return standaloneDriver(address, onError)
    case 'sentinel':
      return new SentinelDriver(address, onError)
    case 'cluster':
      return new ClusterDriver(address, onError)
    default:
      return address.mode satisfies never
  }
}

function standaloneDriver(address: RedisServers, onError: (error: unknown) => void): RedisDriver {
  const [node] = address.nodes
  if (!node) throw new RangeError('the Redis address contains no host')
  const channels: Subscriptions = new Subscriptions(() => peer, onError)
  const events = { onError, onChange: () => undefined, onMessages: channels.convergeAll }
  const peer = new RedisPeer(address, node, events)
  return {
    send: (_key, args) => peer.link.send(args),
    sendTogether: (_key, commands) => peer.link.sendTogether(commands),
    sendToMasters: async (args) => [await peer.link.send(args)],
    channels,
    close: () => peer.close(),
  }
}
