import { RedisLink } from './link.ts'
import type { RedisServers, RedisTarget } from './session.ts'
import { RedisSubscriber } from './subscriber.ts'
import type { RedisNode } from './url.ts'

/** Callbacks of a peer. */
export interface PeerEvents {
  readonly onError: (error: unknown) => void
  readonly onUp?: () => void
  readonly onDown?: () => void
  readonly onChannelMoved?: () => void
}

/** One data server: a connection for commands, and one for messages once somebody listens. */
export class RedisPeer {
  readonly name: string
  readonly node: RedisNode
  readonly link: RedisLink
  readonly subscriber: RedisSubscriber

  constructor(target: RedisTarget, events: PeerEvents) {
    this.name = nodeName(target.node)
    this.node = target.node
    this.link = new RedisLink(target, events)
    this.subscriber = new RedisSubscriber(target, {
      onError: events.onError,
      onChannelMoved: () => events.onChannelMoved?.(),
    })
  }

  close(): void {
    this.link.close()
    this.subscriber.close()
  }
}

/** Returns the key that identifies an address. */
export function nodeName(node: RedisNode): string {
  return `${node.host}:${node.port}`
}

/** Returns the target of a data server at `node` with the URL's credentials and TLS. */
export function dataTarget(address: RedisServers, node: RedisNode): RedisTarget {
  return {
    node,
    tls: address.readTls,
    ...(address.username !== undefined && { username: address.username }),
    ...(address.password !== undefined && { password: address.password }),
    database: address.database,
    masterOnly: address.mode !== 'cluster',
  }
}
