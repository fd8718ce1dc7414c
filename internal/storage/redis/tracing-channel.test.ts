import { expect, test } from 'bun:test'
import { tracingChannel } from 'node:diagnostics_channel'
import { completeTracingChannel } from './client.ts'

test('tracing channel: `hasSubscribers` reports whether the channel has subscribers', () => {
  completeTracingChannel()
  completeTracingChannel()
  const channel = tracingChannel('latchkey:test')
  expect(channel.hasSubscribers).toBe(false)
  const listeners = { start() {}, end() {}, asyncStart() {}, asyncEnd() {}, error() {} }
  channel.subscribe(listeners)
  expect(channel.hasSubscribers).toBe(true)
  channel.unsubscribe(listeners)
  expect(channel.hasSubscribers).toBe(false)
})
