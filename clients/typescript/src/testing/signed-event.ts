import { Webhook } from 'standardwebhooks'
import type { EventFields, EventOf, EventType } from '../event.ts'
import { eventSamples } from '../event-samples.generated.ts'
import type { EventSources } from '../event-sources.generated.ts'

type Payload = EventFields['payload']

/** Options of `signedEvent`. */
export interface SignedEventOptions<T extends EventType> {
  /** Signing secret, `whsec_…`. */
  readonly secret: string
  /** Provider of the sample, if several providers have this type. Default: the first provider. */
  readonly provider?: keyof EventSources[T]
  /** Default: the raw type of the sample. */
  readonly providerRawType?: Extract<EventSources[T][keyof EventSources[T]], string>
  /** Changes the sample: objects are merged member by member, any other value replaces the sample's value, and `undefined` removes it. */
  readonly payload?: Payload
  /** Time at which the delivery is signed and the event was received. Default: now. A receiver refuses a difference of over 5 minutes. */
  readonly at?: Date
  /** Time given by the provider. Default: `at`. */
  readonly occurredAt?: Date
  /** Id of the event. An event with the same id is a duplicate. Default: a new one. */
  readonly id?: string
  /** Default `ten_test`. */
  readonly tenantId?: string
  /** Headers of the provider's call. Default: `content-type`. */
  readonly headers?: Readonly<Record<string, string>>
}

/** Signed delivery. Can be passed to `fetch(url, delivery)`. */
export interface SignedEvent<Event> {
  readonly event: Event
  readonly method: 'POST'
  readonly headers: {
    readonly 'content-type': 'application/json'
    readonly 'webhook-id': string
    readonly 'webhook-timestamp': string
    readonly 'webhook-signature': string
  }
  readonly body: string
  /** Returns the delivery as a new request. Default: to `http://localhost/`. */
  toRequest(url?: string | URL): Request
}

/**
 * Makes a delivery as Latchkey sends it, with the sample payload of a type of the catalogue.
 * @throws TypeError if the catalogue does not have the type for this provider
 */
export function signedEvent<T extends EventType>(
  type: T,
  options: SignedEventOptions<T>,
): SignedEvent<EventOf<T>> {
  const sample = parseSample(type, options.provider)
  const { at = new Date(), occurredAt = at, id = `evt_${crypto.randomUUID().replaceAll('-', '')}` } = options
  const body = JSON.stringify({
    id,
    provider: sample.provider,
    providerRawType: options.providerRawType ?? sample.providerRawType,
    type,
    tenantId: options.tenantId ?? 'ten_test',
    occurredAt: occurredAt.toISOString(),
    receivedAt: at.toISOString(),
    payload: merged(sample.payload, options.payload ?? {}),
    headers: options.headers ?? { 'content-type': 'application/json' },
  } satisfies EventFields)
  const delivery = {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'webhook-id': id,
      'webhook-timestamp': String(Math.floor(at.getTime() / 1000)),
      'webhook-signature': new Webhook(options.secret).sign(id, at, body),
    },
    body,
  } as const
  const toRequest = (url: string | URL = 'http://localhost/') => new Request(url, delivery)
  return { event: JSON.parse(body) as EventOf<T>, ...delivery, toRequest }
}

type Sample = Pick<EventFields, 'provider' | 'providerRawType' | 'payload'>

function parseSample(type: string, provider: PropertyKey | undefined): Sample {
  const json = Object.hasOwn(eventSamples, type) ? eventSamples[type] : undefined
  if (json === undefined) throw new TypeError(`Latchkey: the catalogue has no event type "${type}"`)
  const samples = JSON.parse(json) as readonly Sample[]
  const found = samples.find((sample) => sample.provider === (provider ?? sample.provider))
  if (found) return found
  throw new TypeError(`Latchkey: the catalogue has no "${type}" of provider "${String(provider)}"`)
}

function merged(sample: Payload, changes: Payload): Payload {
  const members = Object.entries(changes).map(([name, value]) => {
    const earlier = sample[name]
    return [name, isObject(earlier) && isObject(value) ? merged(earlier, value) : value] as const
  })
  return { ...sample, ...Object.fromEntries(members) }
}

function isObject(value: unknown): value is Payload {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
