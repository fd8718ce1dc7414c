import { ErrorReply } from '@redis/client'
import { within } from '#internal/base/index.ts'
import type { RedisDriver } from './driver.ts'
import { dataTarget, nodeName, Pulse, type RedisLink, RedisPeer } from './link.ts'
import { type RedisServers, RedisSession, RedisUnavailable } from './session.ts'
import {
  parseRedirection,
  parseSlotRanges,
  type Redirection,
  type SlotRange,
  slotCount,
  slotOf,
} from './slot-map.ts'
import { Subscriptions } from './subscriptions.ts'
import type { RedisNode } from './url.ts'

/** Intervals between reads of the slot map: `calmMs` while every master replies, `urgentMs` while one does not, and at least `leastMs`. */
const calmMs = 5000
const urgentMs = 500
const leastMs = 100
/** Maximum wait for the slot map of one node, before the next node is asked. */
const askMsMax = 700
const redirectionsMax = 3
/** Maximum wait of a command for the connection to a node that a redirection names for the first time. */
const redirectionMsMax = 500
/** Delay before the connection to a node that left the slot map is closed, so that commands in flight can complete. */
const retireMs = 1000

export class ClusterDriver implements RedisDriver {
  readonly #address: RedisServers
  readonly #onError: (error: unknown) => void
  readonly #pulse = new Pulse()
  readonly channels: Subscriptions
  readonly #slots: (RedisPeer | undefined)[] = new Array(slotCount).fill(undefined)
  readonly #peers = new Map<string, RedisPeer>()
  readonly #retiring = new Map<RedisPeer, Timer>()
  #asked = 0

  constructor(address: RedisServers, onError: (error: unknown) => void) {
    this.#address = address
    this.#onError = onError
    this.channels = new Subscriptions((channel) => this.#slots[slotOf(channel)], onError)
    void this.#follow()
  }

  send(key: string, args: readonly string[]): Promise<unknown> {
    return this.#sendTo(key, (link, asking) => link.send(args, asking))
  }

  sendTogether(key: string, commands: readonly (readonly string[])[]): Promise<unknown[]> {
    return this.#sendTo(key, (link, asking) => link.sendTogether(commands, asking))
  }

  async sendToMasters(args: readonly string[]): Promise<readonly unknown[]> {
    const connected = [...this.#peers.values()].filter((peer) => peer.link.session)
    const replies = await Promise.allSettled(connected.map((peer) => peer.link.send(args)))
    const answers = replies.flatMap((reply) => (reply.status === 'fulfilled' ? [reply.value] : []))
    if (answers.length === 0) throw new RedisUnavailable('disconnected')
    return answers
  }

  close(): void {
    this.#pulse.stop()
    for (const peer of this.#peers.values()) peer.close()
    for (const [peer, timer] of this.#retiring) {
      clearTimeout(timer)
      peer.close()
    }
  }

  #sendTo<T>(key: string, send: (link: RedisLink, asking: boolean) => Promise<T>): Promise<T> {
    const peer = this.#slots[slotOf(key)]
    if (!peer) return Promise.reject(new RedisUnavailable('disconnected'))
    return send(peer.link, false).catch((error: unknown) => this.#sendElsewhere(peer, error, send))
  }

  /** Follows redirections and throws any other error. A redirected command has not run, so no command runs twice. */
  async #sendElsewhere<T>(
    first: RedisPeer,
    firstError: unknown,
    send: (link: RedisLink, asking: boolean) => Promise<T>,
  ): Promise<T> {
    let from = first
    let error = firstError
    for (let redirections = 0; redirections < redirectionsMax; redirections += 1) {
      const to = error instanceof ErrorReply ? parseRedirection(error.message, from.node) : undefined
      if (!to) break
      from = this.#redirect(to)
      await from.link.whenUp(redirectionMsMax)
      try {
        return await send(from.link, to.kind === 'ask')
      } catch (again) {
        error = again
      }
    }
    throw error
  }

  #redirect(to: Redirection): RedisPeer {
    const peer = this.#peer(to.node)
    if (to.kind === 'moved') {
      this.#slots[to.slot] = peer
      this.channels.convergeAll()
      this.#pulse.ring()
    }
    return peer
  }

  #peer(node: RedisNode): RedisPeer {
    const name = nodeName(node)
    const known = this.#peers.get(name)
    if (known) return known
    const peer = new RedisPeer(this.#address, node, {
      onError: this.#onError,
      onChange: this.#pulse.ring,
      onMessages: this.channels.convergeAll,
    })
    this.#peers.set(name, peer)
    return peer
  }

  /** Reads the slot map repeatedly until `close`, at most ten times per second. */
  async #follow(): Promise<void> {
    while (!this.#pulse.isStopped) {
      const ranges = await this.#readMap()
      if (this.#pulse.isStopped) return
      if (ranges) this.#apply(ranges)
      await this.#pulse.wait(leastMs, this.#isWhole() ? calmMs : urgentMs)
    }
  }

  #isWhole(): boolean {
    return this.#peers.size > 0 && [...this.#peers.values()].every((peer) => peer.link.session)
  }

  /** Reads from a different connected node each time, to correct an outdated map. Without a connection, asks all nodes of the URL. */
  async #readMap(): Promise<SlotRange[] | undefined> {
    const connected = [...this.#peers.values()].filter((peer) => peer.link.session)
    this.#asked += 1
    for (let turn = 0; turn < connected.length; turn += 1) {
      const peer = connected[(this.#asked + turn) % connected.length]
      if (!peer) continue
      const ranges = await this.#question(peer.node, (args) => peer.link.send(args))
      if (ranges) return ranges
    }
    const questions = this.#address.nodes.map((node) => this.#askOnce(node))
    return Promise.any(questions).catch(() => undefined)
  }

  async #askOnce(node: RedisNode): Promise<SlotRange[]> {
    const session = new RedisSession(dataTarget(this.#address, node), () => undefined)
    try {
      await session.open()
      const ranges = await this.#question(node, (args) => session.send(args))
      if (ranges) return ranges
      throw new RedisUnavailable('refused')
    } catch (error) {
      this.#onError(error)
      throw error
    } finally {
      session.end(undefined)
    }
  }

  /** Reads the slot map of one node; undefined if the node does not reply or has no slots, for example after a restart without data. */
  async #question(
    node: RedisNode,
    send: (args: readonly string[]) => Promise<unknown>,
  ): Promise<SlotRange[] | undefined> {
    try {
      const reply = await within(askMsMax, send(['CLUSTER', 'SLOTS']), () => undefined)
      const ranges = parseSlotRanges(reply, node)
      return ranges.length > 0 ? ranges : undefined
    } catch {
      return undefined
    }
  }

  #apply(ranges: readonly SlotRange[]): void {
    this.#slots.fill(undefined)
    const used = new Set<RedisPeer>()
    for (const { from, to, master } of ranges) {
      const peer = this.#peer(master)
      used.add(peer)
      this.#slots.fill(peer, from, to + 1)
    }
    this.channels.convergeAll()
    for (const peer of this.#peers.values()) if (!used.has(peer)) this.#retire(peer)
  }

  #retire(peer: RedisPeer): void {
    this.#peers.delete(peer.name)
    const timer = setTimeout(() => {
      this.#retiring.delete(peer)
      peer.close()
    }, retireMs)
    this.#retiring.set(peer, timer)
  }
}
