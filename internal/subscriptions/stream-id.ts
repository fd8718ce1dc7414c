import { parseEventId } from '#internal/base/index.ts'
import type { FeedPosition } from '#internal/events/index.ts'

/** Id of an event in a stream: the token of the stream's lease, and the position of the event. */
export interface StreamId {
  readonly token: string
  readonly position: FeedPosition
}

export function streamIdOf({ token, position: { transaction, eventId } }: StreamId): string {
  return `${token}.${transaction}.${eventId}`
}

const form = /^([0-9a-f-]{36})\.([0-9]{1,18})\.(evt_[0-9a-z]{26})$/

export function parseStreamId(text: string): StreamId | undefined {
  const [, token, transaction, id = ''] = form.exec(text) ?? []
  const eventId = parseEventId(id)
  if (token === undefined || transaction === undefined || eventId === undefined) return undefined
  return { token, position: { transaction, eventId } }
}
