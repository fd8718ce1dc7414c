import { within } from '#internal/base/index.ts'
import type { RedisDriver } from './driver.ts'
import { nodeName, Pulse, RedisLink, RedisPeer } from './link.ts'
import { type RedisServers, type RedisTarget, RedisUnavailable } from './session.ts'
import { Subscriptions } from './subscriptions.ts'
import type { RedisNode } from './url.ts'

/** Intervals between polls of the Sentinels: `calmMs` while the master replies, `urgentMs` while it does not, and at least `leastMs`. */
const calmMs = 1000
const urgentMs = 200
const leastMs = 20
const voteMsMax = 500

export class SentinelDriver implements RedisDriver {
  readonly #address: RedisServers
  readonly #onError: (error: unknown) => void
  readonly #sentinels: readonly RedisLink[]
  readonly channels: Subscriptions
  readonly #pulse = new Pulse()
  #peer: RedisPeer | undefined
  #candidate: RedisPeer | undefined

  constructor(address: RedisServers, onError: (error: unknown) => void) {
    this.#address = address
    this.#onError = onError
    this.channels = new Subscriptions(() => this.#peer, onError)
    this.#sentinels = address.nodes.map(
      (node) => new RedisLink(sentinelTarget(address, node), { onError, onChange: this.#pulse.ring }),
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

  close(): void {
    this.#pulse.stop()
    for (const sentinel of this.#sentinels) sentinel.close()
    this.#peer?.close()
    this.#candidate?.close()
  }

  /** Polls the Sentinels until `close`, at most 50 times per second. This rate is reached only while connections change. */
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

  /** Keeps the current master in use until the new server is verified to be a master. */
  #prepare(node: RedisNode): void {
    if (this.#candidate?.name === nodeName(node)) return
    this.#candidate?.close()
    this.#candidate = new RedisPeer(this.#address, node, {
      onError: this.#onError,
      onChange: this.#pulse.ring,
      onMessages: this.channels.convergeAll,
    })
  }

  #promote(): void {
    if (!this.#candidate?.link.session) return
    const old = this.#peer
    this.#peer = this.#candidate
    this.#candidate = undefined
    this.channels.convergeAll()
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
 * Returns the master to switch to, or undefined to keep the current one. While the current master replies, another server needs more votes,
 * so that a Sentinel in a network partition cannot cause a switch. While it does not reply, one vote for another server is enough: the
 * leader of a failover knows the new master a second before the other Sentinels, and a server that is no master is not used.
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
