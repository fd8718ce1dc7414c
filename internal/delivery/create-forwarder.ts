import {
  decodeDue,
  dueOf,
  notifyForwarders,
  offersChannelFrom,
  type PausedForwarding,
} from '#internal/events/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import type { KeyRingGate } from '#internal/tenants/index.ts'
import { Forwarder, type ForwarderOptions } from './forwarder.ts'

/** Dependencies of `createForwarder`. The caller closes them. */
export interface ForwarderParts
  extends Pick<
    ForwarderOptions,
    'pool' | 'directory' | 'secrets' | 'outbound' | 'tracing' | 'health' | 'clock' | 'observer'
  > {
  readonly redis: RedisConnection
  readonly settings: SettingsWatch
  readonly keyRingGate: KeyRingGate
}

const allPaused: PausedForwarding = { all: true, tenants: new Set() }

/**
 * Creates the forwarder of a process, which the caller starts and stops. It claims again when settings change and when the key ring is
 * verified. `receiveDue` takes each message of `dueChannel`; if one is lost, the forwarder finds the due deliveries by polling.
 */
export function createForwarder({ redis, settings, keyRingGate, ...parts }: ForwarderParts): {
  readonly forwarder: Forwarder
  receiveDue(message: string): void
} {
  const offersChannel = offersChannelFrom(parts.pool)
  const receive = (message: string) => forwarder.receive(message)
  const forwarder: Forwarder = new Forwarder({
    ...parts,
    // All deliveries pause until the key ring is verified, because a process with a wrong key ring cannot sign deliveries.
    paused: () => (keyRingGate.isOpen ? pausedBy(settings) : allPaused),
    retentionDefaults: () => settings.current.retention,
    // `subscribe` costs a message only after the connection broke. If a message is lost, the lease of its events expires, and they are
    // claimed.
    publishOffer: async (message, channel) => {
      await redis.subscribe(channel, receive)
      await redis.publish(await offersChannel(), message)
    },
    onReleased: (queueIds) => void notifyForwarders(redis, queueIds).catch(() => undefined),
  })
  settings.onChange(() => forwarder.notify('all'))
  void keyRingGate.opened.then(() => forwarder.notify('all'))
  return { forwarder, receiveDue: (message) => forwarder.notify(dueOf(decodeDue(message))) }
}

/** Returns which deliveries the settings pause. Everything is paused until the settings have been read once. */
export function pausedBy({ isRead, current }: SettingsWatch): PausedForwarding {
  return { all: !isRead || current.isForwardingPaused, tenants: current.forwardingPausedFor }
}
