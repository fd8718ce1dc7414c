import { type EventId, isTenantId, parseEventId } from '#internal/base/index.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import { providerNames } from '#internal/tenants/index.ts'

/** An entry of the spool as it was read. */
export interface SpoolEntry {
  /** Where it is in the stream. */
  readonly entryId: string
  /** The event's id as the entry has it, which need not be one; '' where there is none. */
  readonly eventId: string
  /** Undefined for an entry that cannot be read. */
  readonly event: ReceivedEvent | undefined
}

/** What stands beside id and payload, as JSON text. The payload is kept as it is: escaped it would be a tenth longer. */
type SpooledFacts = Omit<ReceivedEvent, 'id' | 'payload'>

/**
 * Gives an event's values in the spool: id, facts, payload, and the tenant once more, by which its share is counted.
 * `decodeEntry` undoes it to the byte.
 */
export function encodeEvent(event: ReceivedEvent): readonly [string, string, string, string] {
  const { id, payload, ...facts } = event
  return [id, JSON.stringify(facts satisfies SpooledFacts), payload, event.tenantId]
}

/**
 * Reads an entry: `[entry id, [name, value, …]]`. Never throws. Facts that a newer build added are kept, those it left out make
 * the entry unreadable.
 */
export function decodeEntry(reply: unknown): SpoolEntry {
  const [entryId, fields] = reply as [string, readonly string[]]
  const valueOf = (name: string) => {
    const at = fields.findIndex((field, index) => index % 2 === 0 && field === name)
    return at < 0 ? undefined : fields[at + 1]
  }
  const [eventId = '', facts, payload] = [valueOf('id'), valueOf('facts'), valueOf('payload')]
  const id = parseEventId(eventId)
  if (id === undefined || facts === undefined || payload === undefined)
    return { entryId, eventId, event: undefined }
  return { entryId, eventId, event: readEvent(id, facts, payload) }
}

function readEvent(id: EventId, text: string, payload: string): ReceivedEvent | undefined {
  const facts = parseFacts(text)
  return facts && { ...facts, id, payload }
}

function parseFacts(text: string): SpooledFacts | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return undefined
    const fields = value as Record<string, unknown>
    const holds = Object.entries(checks).every(([name, check]) => check(fields[name]))
    return holds ? (value as SpooledFacts) : undefined
  } catch {
    return undefined
  }
}

const timeMsMax = Date.UTC(9999, 11, 31)
const isText = (value: unknown) => typeof value === 'string'
const isLike = (pattern: RegExp) => (value: unknown) => typeof value === 'string' && pattern.test(value)
const isWhole = (max: number) => (value: unknown) => Number.isInteger(value) && inRange(Number(value), max)
const inRange = (value: number, max: number) => value >= 0 && value <= max
const isDay = (value: unknown) =>
  isLike(/^\d{4}-\d\d-\d\d$/)(value) && !Number.isNaN(Date.parse(String(value)))

/** One check for each fact, so that a new one is not forgotten here. */
const checks: { readonly [Fact in keyof SpooledFacts]-?: (value: unknown) => boolean } = {
  dedupeKey: isLike(/^[0-9a-f]{32}$/),
  tenantId: (value) => typeof value === 'string' && isTenantId(value),
  provider: (value) => providerNames.some((name) => name === value),
  sourceEventId: isText,
  rawType: isText,
  type: isText,
  occurredAtMs: isWhole(timeMsMax),
  receivedAtMs: isWhole(timeMsMax),
  headers: isText,
  payloadBytes: isWhole(Number.MAX_SAFE_INTEGER),
  expiresOn: isDay,
  payloadExpiresOn: isDay,
  dedupeExpiresOn: isDay,
  state: (value) => value === 'accepted' || value === 'verified',
  overLimit: (value) => value === undefined || value === true,
  retriesOnRedelivery: (value) => value === undefined || value === true,
}
