import { Type } from '@sinclair/typebox'
import type { Principal } from '#internal/access/index.ts'
import {
  type ApiError,
  apiError,
  type Clock,
  idPattern,
  type JsonObject,
  randomToken,
} from '#internal/base/index.ts'
import { didYouMean } from '#internal/config/index.ts'
import { type Answer, mayGrow, named, type ParsedCall, plainText, route } from '#internal/http/index.ts'
import {
  type AcceptContext,
  acceptWebhook,
  type Caller,
  type Callers,
  type ReceivedCall,
  type WebhookResult,
} from '#internal/intake/index.ts'
import {
  allProviderNames,
  declaredSampleOf,
  eventCatalogue,
  findProviderName,
  parseStored,
  simulateDeclared,
} from '#internal/providers/index.ts'
import {
  acceptedProviderNames,
  type Declarations,
  neutralProviderName,
  type ProviderName,
  providerNamePattern,
} from '#internal/tenants/index.ts'
import { limitHeaders } from '#internal/usage/index.ts'
import { type CallSigner, merge, type SimulatedPayload, sampleOf } from './simulated-call.ts'
import { createSimulationId, simulationBytesMax } from './simulation.ts'
import { refuseUnready } from './start.ts'

export interface EventSimulationParts {
  readonly callers: Pick<Callers, 'byTenant'>
  declarations(): Declarations
  readonly clock: Clock
  readonly intake: AcceptContext
  readonly signer: CallSigner
  /** Called after intake has accepted the simulated event. */
  onAccepted(accepted: Extract<WebhookResult, { event: unknown }>): void
}

/** Body of POST /v1/simulate/event. */
const SimulateEventRequest = Type.Object(
  {
    provider: Type.String({
      pattern: providerNamePattern,
      maxLength: 40,
      expected: 'the name of a provider',
      documented: {
        type: 'string',
        enum: acceptedProviderNames,
        ...mayGrow,
        description:
          'Provider of the event, or its vendor’s name; or a declared provider of the tenant, or its alias.',
      },
    }),
    type: plainText(255, {
      description:
        'Normalized type that the provider has in `GET /v1/event-types`; for `generic` any type. For a declared provider a type of its declaration, or any raw type.',
    }),
    overrides: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description:
          'Members of the payload. Merged into the provider’s sample of the type, object by object; any other value replaces that of the sample. For `generic`, the whole `data`.',
      }),
    ),
  },
  { additionalProperties: false, $id: 'SimulateEventRequest' },
)

const eventFields = {
  id: { type: 'string', pattern: idPattern('evt'), description: 'Id of the stored event.' },
  type: {
    type: 'string',
    description: 'Normalized type. Overrides can lead to another one than that of the request.',
  },
  providerRawType: { type: 'string', description: 'Type as the provider names it.' },
  sourceEventId: { type: 'string', description: 'The provider’s id of the event.' },
}

const isSignedField = {
  type: 'boolean',
  description:
    'Whether the call was signed and verified. False for a declared provider that signs with a private key, such as Ed25519, or by a JSON Web Token, and where the signature is part of what it covers: then only the rest of the way is that of a real call.',
}

const SimulatedEventAnswer = named('SimulatedEventAnswer', {
  type: 'object',
  required: ['ok', 'simulationId', 'isSigned', 'event'],
  properties: {
    ok: { type: 'boolean', const: true },
    simulationId: {
      type: 'string',
      pattern: idPattern('sim'),
      description: 'Value of `latchkey-simulation` among the `headers` of the forwarded event.',
    },
    isSigned: isSignedField,
    event: { type: 'object', required: Object.keys(eventFields), properties: eventFields },
  },
})

/** Route that simulates one event, for API keys of scope `simulations`. */
export const eventSimulationRoute = route({
  method: 'POST',
  path: '/v1/simulate/event',
  scope: 'simulations',
  body: SimulateEventRequest,
  bodyBytesMax: () => simulationBytesMax,
  operation: {
    id: 'simulateEvent',
    tag: 'simulations',
    summary: 'Simulate an event of any type and send it to the callback',
    description: `The event has the provider's format and the tenant's own signature (\`wallet\`: that of a key that nothing else trusts), and takes the way of a real call: verification, deduplication, usage, log and delivery. Its id is new with every call. The forwarded event has \`latchkey-origin: simulation\` and \`latchkey-simulation: <simulationId>\` among its \`headers\`, which no outside call can cause. Events of \`gateway\` cannot be simulated. A declared provider's payload is that of a vector of its declaration, else the members that the conditions of the type ask for.`,
    examples: {
      card: {
        summary: 'A dispute over another amount',
        value: {
          provider: 'card',
          type: 'chargeback.created',
          overrides: { data: { object: { amount: 4200 } } },
        },
      },
      generic: {
        summary: 'An event of your own service',
        value: { provider: 'generic', type: 'invoice.approved', overrides: { invoice: '20417' } },
      },
    },
    answers: {
      202: {
        description: 'The event is accepted.',
        schema: SimulatedEventAnswer,
        examples: {
          card: {
            value: {
              ok: true,
              simulationId: 'sim_06gzx3byyxdccqxb8v47jbp37g',
              isSigned: true,
              event: {
                id: 'evt_06gzx3byyxdccqxb8v47jbp37h',
                type: 'chargeback.created',
                providerRawType: 'charge.dispute.created',
                sourceEventId: 'evt_sim_Jk2p8vQxT3mW',
              },
            },
          },
        },
      },
    },
    errors: [
      'invalid_request',
      'api_key_invalid',
      'api_key_scope',
      'tenant_suspended',
      'provider_not_ready',
      'provider_paused',
      'limit_exceeded',
      'internal',
      'queue_unavailable',
      'secrets_unreadable',
      'starting',
      'body_dropped',
      'overloaded',
    ],
    errorTexts: {
      409: 'The tenant takes no calls of this provider: it is not set up, not rolled out (`wallet`), none of its secrets is in force, or its events cannot be simulated.',
    },
  },
  handle: simulate,
})

async function simulate(
  { body: { provider: given, type, overrides = {} } }: ParsedCall<typeof SimulateEventRequest>,
  { tenant }: Principal,
  parts: EventSimulationParts,
): Promise<Answer | ApiError> {
  const provider = findProviderName(given, parts.declarations())
  if (provider === undefined)
    return apiError('invalid_request', unknownProviderText(given, parts.declarations()))
  const isBuiltIn = neutralProviderName(provider) !== undefined
  const sample = isBuiltIn ? sampleOf(provider, type) : undefined
  const notReady = refuseUnready(parts.callers, tenant, { provider })
  if (notReady) return notReady
  if (isBuiltIn && sample === undefined)
    return apiError('invalid_request', unknownTypeText(given, provider, type))
  const caller = parts.callers.byTenant(tenant, provider)
  if (caller.kind === 'refused') return apiError('provider_paused', undefined, { 'Retry-After': '30' })
  const event = { id: `evt_sim_${randomToken()}`, overrides, type, occurredAtMs: parts.clock.now() }
  const written = sample
    ? await writeBuiltIn(parts, caller, { ...event, sample })
    : writeDeclared(caller, event)
  if (written === undefined)
    return apiError('provider_not_ready', `This event of "${provider}" cannot be simulated for this tenant`)
  const simulationId = createSimulationId(event.occurredAtMs)
  const { caller: signedBy, isSigned, ...call } = written
  const accepted = await acceptWebhook(parts.intake, signedBy, { ...call, simulationId })
  if ('event' in accepted) parts.onAccepted(accepted)
  return answerOf(accepted, { simulationId, isSigned })
}

function unknownProviderText(given: string, declarations: Declarations): string {
  const meant = didYouMean(given, allProviderNames(declarations))
  return `There is no provider "${given}"${meant === undefined ? '' : `: did you mean ${meant}?`}`
}

/** Returns the error for an unknown type, with the type that the caller probably meant, or else with a reference to the list of types. */
function unknownTypeText(given: string, provider: ProviderName, type: string): string {
  const name = given === provider ? given : `${given} (${provider})`
  const ofProvider = eventCatalogue.flatMap((entry) =>
    entry.providers
      .filter((each) => each.provider === provider)
      .map(({ providerRawType }) => ({ type: entry.type, rawType: providerRawType })),
  )
  const byRawType = ofProvider.find(({ rawType }) => rawType === type)
  if (byRawType) return `"${type}" is a raw type of ${name}: its normalized type is ${byRawType.type}`
  const meant = didYouMean(type, [...new Set(ofProvider.map((each) => each.type))])
  return `${name} has no type "${type}": ${meant === undefined ? `GET /v1/event-types?provider=${provider} and the reference page of events list its types` : `did you mean ${meant}?`}`
}

interface WantedEvent {
  readonly id: string
  readonly type: string
  readonly overrides: JsonObject
  readonly occurredAtMs: number
}

interface WrittenCall extends Pick<ReceivedCall, 'headers' | 'body'> {
  readonly caller: Caller
  readonly isSigned: boolean
}

async function writeBuiltIn(
  { signer }: EventSimulationParts,
  caller: Caller,
  { id, overrides, occurredAtMs, sample }: WantedEvent & { readonly sample: SimulatedPayload },
): Promise<WrittenCall | undefined> {
  const wanted = { id, sample, overrides, occurredAtMs, signedAtMs: occurredAtMs }
  const signed = await signer.write(caller, wanted)
  return signed && { ...signed, isSigned: true }
}

function writeDeclared(
  caller: Caller,
  { id, type, overrides, occurredAtMs }: WantedEvent,
): WrittenCall | undefined {
  const { keying } = caller
  if (keying.kind !== 'secrets' || keying.declared === undefined) return undefined
  const [secret] = keying.secrets()
  if (secret === undefined) return undefined
  const declaration = parseStored(keying.declared)
  const { rawType, payload } = declaredSampleOf(declaration, type)
  const sample = { rawType, payload: merge(payload, overrides) }
  const call = simulateDeclared(declaration, { id, sample, occurredAtMs, secret })
  if (call === undefined) return undefined
  const { provider } = keying
  return { ...call, caller: call.isSigned ? caller : { ...caller, keying: { kind: 'unsigned', provider } } }
}

function answerOf(
  accepted: WebhookResult,
  { simulationId, isSigned }: { readonly simulationId: string; readonly isSigned: boolean },
): Answer | ApiError {
  switch (accepted.kind) {
    case 'stored':
    case 'queued':
    case 'duplicate': {
      const { id, type, rawType: providerRawType, sourceEventId } = accepted.event
      const event = { id, type, providerRawType, sourceEventId }
      const body = JSON.stringify({ ok: true, simulationId, isSigned, event })
      return {
        kind: 'answer',
        status: 202,
        body,
        outcome: accepted.kind,
        log: { simulation: simulationId, event: id },
      }
    }
    case 'invalid':
      return apiError('invalid_request', `With these overrides, intake refuses the call: ${accepted.cause}`)
    case 'limited': {
      const { limit, quota, retryAfterMs } = accepted
      return apiError('limit_exceeded', undefined, limitHeaders(limit, quota, retryAfterMs))
    }
    case 'unverifiable':
      return apiError('secrets_unreadable', undefined, { 'Retry-After': '30' })
    case 'unavailable':
    case 'unread':
    case 'uncertified':
      return apiError('queue_unavailable', undefined, { 'Retry-After': '5' })
    // Impossible: a simulated call has not passed through Latchkey before (`looping`) and confirms no subscription (`confirmed`).
    case 'refused':
    case 'looping':
    case 'confirmed':
      return apiError('internal')
  }
}
