import { type EventId, parseEventId } from '#internal/base/index.ts'
import {
  parseReplayId,
  type ReplayFilter,
  type ReplayId,
  replayedOrigins,
  replayRateMax,
} from '#internal/replays/index.ts'
import { acceptedProviderNames, neutralProviderName } from '#internal/tenants/index.ts'
import { type Misuse, misuse, parseOptions } from './command.ts'

/** A parsed request of `latchkey replay`. */
export type ReplayRequest = {
  readonly kind: 'request'
  readonly by: string | undefined
  readonly json: boolean
  /** Tenant to replay. Default: all tenants. */
  readonly tenant: string | undefined
} & (
  | { readonly verb: 'event'; readonly id: EventId }
  | { readonly verb: 'status' | 'cancel'; readonly id: ReplayId }
  | { readonly verb: 'list'; readonly limit: number; readonly after: ReplayId | undefined }
  | {
      readonly verb: 'start'
      readonly filter: Omit<ReplayFilter, 'tenantId'>
      readonly ratePerSecond: number
      readonly key: string | undefined
      readonly isDryRun: boolean
    }
)

/** Options of each subcommand. Every subcommand also accepts `json`. */
const verbs = {
  event: ['by'],
  start: [
    'tenant',
    'all-tenants',
    'state',
    'provider',
    'type',
    'origin',
    'from',
    'to',
    'rate',
    'key',
    'dry-run',
    'by',
  ],
  status: [],
  list: ['tenant', 'limit', 'after'],
  cancel: ['by'],
} as const satisfies Record<string, readonly string[]>
type Verb = keyof typeof verbs

const text = { type: 'string' } as const
const flag = { type: 'boolean', default: false } as const
const options = {
  ...{
    tenant: text,
    state: text,
    provider: text,
    type: text,
    origin: text,
    from: text,
    to: text,
    rate: text,
    key: text,
  },
  ...{ limit: text, after: text, by: text, 'all-tenants': flag, 'dry-run': flag, json: flag },
} as const
type Values = Exclude<ReturnType<typeof parseOptions<typeof options>>, Misuse>['values']

const states = ['delivery_failed', 'processed', 'verified', 'any'] as const
const defaultRate = '50'
const defaultLimit = '20'
const limitMax = 100
const unitsMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Parses the arguments after `latchkey replay`. Pure. @param nowMs base of relative times */
export function parseReplayRequest(args: readonly string[], nowMs: number): ReplayRequest | Misuse {
  const parsed = parseOptions(args, options)
  if (parsed.kind === 'misused') return parsed
  const { positionals, values } = parsed
  const [verb = '', word = '', ...more] = positionals
  if (!isVerb(verb)) return misuse(`Use one of these subcommands: ${Object.keys(verbs).join(', ')}`)
  const takesId = verb !== 'start' && verb !== 'list'
  if ((word !== '') !== takesId || more.length > 0)
    return misuse(`${verb} ${takesId ? 'requires exactly one id' : 'accepts no further argument'}`)
  const allowed: readonly string[] = [...verbs[verb], 'json']
  const odd = Object.entries(values).find(([name, value]) => value !== false && !allowed.includes(name))
  if (odd !== undefined) return misuse(`${verb} does not accept --${odd[0]}`)
  const asked = { kind: 'request', by: values.by, json: values.json, tenant: values.tenant } as const
  if (verb === 'event') {
    const id = parseEventId(word)
    return id === undefined ? misuse('An event’s id is evt_ and 26 characters') : { ...asked, verb, id }
  }
  if (verb === 'status' || verb === 'cancel') {
    const id = parseReplayId(word)
    return id === undefined ? misuse('A replay’s id is rpl_ and 26 characters') : { ...asked, verb, id }
  }
  const found = verb === 'list' ? listOf(values) : startOf(values, nowMs)
  return 'text' in found ? found : { ...asked, ...found }
}

function listOf({ limit: wanted = defaultLimit, after: position }: Values) {
  const limit = wholeNumber(wanted, limitMax)
  if (limit === undefined) return misuse(`--limit has to be 1 to ${limitMax}`)
  const after = position === undefined ? undefined : parseReplayId(position)
  if (position !== undefined && after === undefined) return misuse('--after has to be a replay’s id')
  return { verb: 'list', limit, after } as const
}

function startOf(values: Values, nowMs: number) {
  const { tenant, state = 'delivery_failed', provider, type, from, to, rate = defaultRate, key } = values
  const origin = replayedOrigins.find((each) => each === values.origin)
  if ((tenant === undefined) !== values['all-tenants'])
    return misuse('Give either --tenant ID|SLUG or --all-tenants')
  const known = states.find((each) => each === state)
  if (known === undefined) return misuse(`--state has to be one of ${states.join(', ')}`)
  const neutral = provider === undefined ? undefined : neutralProviderName(provider)
  if (provider !== undefined && neutral === undefined)
    return misuse(`--provider has to be one of ${acceptedProviderNames.join(', ')}`)
  if (values.origin !== undefined && origin === undefined)
    return misuse(`--origin has to be one of ${replayedOrigins.join(', ')}`)
  const fromMs = timeOf(from ?? '', nowMs)
  if (fromMs === undefined) return misuse(`--from ${timeHelp}`)
  const toMs = to === undefined ? undefined : timeOf(to, nowMs)
  if (to !== undefined && toMs === undefined) return misuse(`--to ${timeHelp}`)
  const ratePerSecond = wholeNumber(rate, replayRateMax)
  if (ratePerSecond === undefined) return misuse(`--rate has to be 1 to ${replayRateMax} events a second`)
  const filter = {
    ...(known !== 'any' && { state: known }),
    ...(neutral !== undefined && { provider: neutral }),
    ...(type !== undefined && { type }),
    ...(origin !== undefined && { origin }),
    ...{ fromMs, ...(toMs !== undefined && { toMs }) },
  }
  return { verb: 'start', filter, ratePerSecond, key, isDryRun: values['dry-run'] } as const
}

const timeHelp =
  'has to be a time such as 2026-11-01 or 2026-11-01T08:30:00Z, or how long ago, such as 24h or 7d'
const absolute = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

function timeOf(given: string, nowMs: number): number | undefined {
  const ago = /^(\d{1,6})([mhd])$/.exec(given)
  if (ago) return nowMs - Number(ago[1]) * unitsMs[ago[2] as keyof typeof unitsMs]
  const timeMs = absolute.test(given) ? Date.parse(given) : Number.NaN
  return Number.isNaN(timeMs) ? undefined : timeMs
}

function wholeNumber(given: string, max: number): number | undefined {
  const value = /^\d{1,9}$/.test(given) ? Number(given) : 0
  return value >= 1 && value <= max ? value : undefined
}

function isVerb(word: string): word is Verb {
  return Object.hasOwn(verbs, word)
}
