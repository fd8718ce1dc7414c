import { tracingChannel } from 'node:diagnostics_channel'

const events = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const

/**
 * Adds the property `hasSubscribers` to TracingChannel, which Node.js provides and Bun 1.4.5 lacks
 * (https://nodejs.org/api/diagnostics_channel.html#tracingchannelhassubscribers, read 2026-11). Without it, node-redis prepares trace data
 * for every command although there are no subscribers, which costs more than encoding the command. Safe to repeat.
 */
export function completeTracingChannel(): void {
  const prototype = Object.getPrototypeOf(tracingChannel('latchkey:probe')) as object
  if ('hasSubscribers' in prototype) return
  Object.defineProperty(prototype, 'hasSubscribers', {
    configurable: true,
    get(this: Record<(typeof events)[number], { readonly hasSubscribers: boolean }>) {
      return events.some((event) => this[event].hasSubscribers)
    },
  })
}
