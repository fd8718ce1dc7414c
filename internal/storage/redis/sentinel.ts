import { within } from '#internal/base/index.ts'
import { RoutedChannels } from './channels.ts'
import { type ChannelListener, RedisUnavailable } from './connection.ts'
import type { RedisDriver } from './driver.ts'
import { RedisLink } from './link.ts'
import { dataTarget, nodeName, RedisPeer } from './peer.ts'
import { Pulse } from './pulse.ts'
import type { RedisServers, RedisTarget } from './session.ts'
import type { RedisNode } from './url.ts'

/** Poll intervals of the Sentinels: while the master answers, while it does not, and the minimum. */
const calmMs = 1000
const urgentMs = 200
const leastMs = 20
/** A sentinel without a reply for this long has no vote in this round. */
const voteMsMax = 500

/** Follows the master that the sentinels name. */
export class SentinelDriver implements RedisDriver {
  readonly #address: RedisServers
  readonly #onError: (error: unknown) => void
  readonly #sentinels: readonly RedisLink[]
  readonly #channels = new RoutedChannels(() => this.#peer?.subscriber)
  readonly #pulse = new Pulse()
  #peer: RedisPeer | undefined
  #candidate: RedisPeer | undefined

  constructor(address: RedisServers, onError: (error: unknown) => void) {
    this.#address = address
    this.#onError = onError
    this.#sentinels = address.nodes.map(
      (node) => new RedisLink(sentinelTarget(address, node), { onError, onUp: () => this.#pulse.ring() }),
    )
    void this.#follow()
  }

  send(_key: string, args: readonly string[]): Promise<unknown> {
    return this.#peer?.link.send(args) ?? Promise.reject(new RedisUnavailable('disconnected'))
  }

  sendTogether(_key: string, commands: readonly (readonly string[])[]): Promise<unknown[]> {
    return this.#peer?.link.sendTogether(commands) ?? Promise.reject(new RedisUnavailable('disconnected'))
  }

  async sendToMasters(args: readonly string[]): Promise<readonly unknown[]> {
    return [await this.send('', args)]
  }

  subscribe(channel: string, listener: ChannelListener): Promise<void> {
    return this.#channels.subscribe(channel, listener)
  }

  unsubscribe(channel: string): Promise<void> {
    return this.#channels.unsubscribe(channel)
  }

  close(): void {
    this.#pulse.stop()
    for (const sentinel of this.#sentinels) sentinel.close()
    this.#peer?.close()
    this.#candidate?.close()
  }

  /** Ends with `close`; asks at most fifty times a second, and as often only while connections come and go. */
  async #follow(): Promise<void> {
    while (!this.#pulse.isStopped) {
      const votes = await Promise.all(this.#sentinels.map((sentinel) => this.#ask(sentinel)))
      if (this.#pulse.isStopped) return
      const answers = this.#peer?.link.session !== undefined
      const master = decideMaster(
        votes.flatMap((vote) => vote ?? []),
        this.#peer?.name,
        answers,
      )
      if (master) this.#prepare(master)
      this.#promote()
      await this.#pulse.wait(leastMs, this.#peer?.link.session ? calmMs : urgentMs)
    }
  }

  /** Connects to the next master beside the present one, which stays in use until the other is seen to be a master. */
  #prepare(node: RedisNode): void {
    if (this.#candidate?.name === nodeName(node)) return
    this.#candidate?.close()
    this.#candidate = new RedisPeer(dataTarget(this.#address, node), {
      onError: this.#onError,
      onUp: () => this.#pulse.ring(),
      onDown: () => this.#pulse.ring(),
    })
  }

  #promote(): void {
    if (!this.#candidate?.link.session) return
    const old = this.#peer
    this.#peer = this.#candidate
    this.#candidate = undefined
    this.#channels.replace()
    old?.close()
  }

  async #ask(sentinel: RedisLink): Promise<RedisNode | undefined> {
    if (!sentinel.session) return undefined
    const args = ['SENTINEL', 'get-master-addr-by-name', this.#address.masterName ?? '']
    try {
      return parseVote(await within(voteMsMax, sentinel.send(args), () => undefined))
    } catch (error) {
      this.#onError(error)
      return undefined
    }
  }
}

/**
 * Returns the master to switch to, or undefined to stay. While the current one answers, a switch needs more votes than it has, so that a
 * sentinel cut off from the others changes nothing. While it does not, one vote for another is enough: the leader of a
 * failover knows of it a second before the others do, and a server that turns out to be no master is not used.
 */
export function decideMaster(
  votes: readonly RedisNode[],
  current: string | undefined,
  currentAnswers: boolean,
): RedisNode | undefined {
  const counts = new Map<string, { readonly node: RedisNode; count: number }>()
  for (const node of votes) {
    const entry = counts.get(nodeName(node)) ?? { node, count: 0 }
    entry.count += 1
    counts.set(nodeName(node), entry)
  }
  const present = current === undefined || !currentAnswers ? 0 : (counts.get(current)?.count ?? 0)
  const others = [...counts].filter(([name]) => name !== current).map(([, entry]) => entry)
  const best = others.sort((a, b) => b.count - a.count)[0]
  return best && best.count > present ? best.node : undefined
}

function parseVote(reply: unknown): RedisNode | undefined {
  if (!Array.isArray(reply)) return undefined
  const port = Number(reply[1])
  return Number.isInteger(port) ? { host: String(reply[0]), port } : undefined
}

function sentinelTarget(address: RedisServers, node: RedisNode): RedisTarget {
  return {
    node,
    tls: address.readTls,
    ...(address.sentinelUsername !== undefined && { username: address.sentinelUsername }),
    ...(address.sentinelPassword !== undefined && { password: address.sentinelPassword }),
    database: 0,
    masterOnly: false,
  }
}
