import { RoutedChannels } from './channels.ts'
import { ClusterDriver } from './cluster.ts'
import type { ChannelListener } from './connection.ts'
import { dataTarget, RedisPeer } from './peer.ts'
import { SentinelDriver } from './sentinel.ts'
import type { RedisServers } from './session.ts'

/**
 * The one shape of the three forms of Redis. It connects by itself; a call without a connection is refused at once, one
 * that was sent may take as long as its connection lives: the deadline is its caller's.
 */
export interface RedisDriver {
  /** Sends one command to the server that holds `key`. @throws RedisUnavailable | ErrorReply */
  send(key: string, args: readonly string[]): Promise<unknown>
  /**
   * Sends commands to the server that holds `key`, as `RedisSession.sendTogether`.
   * @throws RedisUnavailable | ErrorReply
   */
  sendTogether(key: string, commands: readonly (readonly string[])[]): Promise<unknown[]>
  /** Sends one command to every master that is connected. @throws RedisUnavailable if there is none */
  sendToMasters(args: readonly string[]): Promise<readonly unknown[]>
  subscribe(channel: string, listener: ChannelListener): Promise<void>
  unsubscribe(channel: string): Promise<void>
  close(): void
}

/** Makes the driver for an address. `onError` hears of every failed attempt to connect and of every lost connection. */
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
  if (!node) throw new RangeError('the Redis address names no host')
  const peer = new RedisPeer(dataTarget(address, node), { onError })
  const channels = new RoutedChannels(() => peer.subscriber)
  return {
    send: (_key, args) => peer.link.send(args),
    sendTogether: (_key, commands) => peer.link.sendTogether(commands),
    sendToMasters: async (args) => [await peer.link.send(args)],
    subscribe: (channel, listener) => channels.subscribe(channel, listener),
    unsubscribe: (channel) => channels.unsubscribe(channel),
    close: () => peer.close(),
  }
}
