import { parseArgs } from 'node:util'
import { type EventId, parseEventId } from '#internal/base/index.ts'
import { parseReplayId, type ReplayFilter, type ReplayId, replayRateMax } from '#internal/replays/index.ts'
import { providerNames } from '#internal/tenants/index.ts'

/** Options of all requests. */
interface Asked {
  readonly by: string | undefined
  readonly json: boolean
}

/** A parsed request of `latchkey replay`. */
export type ReplayRequest =
  | (Asked & { readonly verb: 'event'; readonly id: EventId })
  | (Asked & { readonly verb: 'status' | 'cancel'; readonly id: ReplayId })
  | (Asked & {
      readonly verb: 'list'
      readonly tenant: string | undefined
      readonly limit: number
      readonly after: ReplayId | undefined
    })
  | (Asked & {
      readonly verb: 'start'
      /** Default all tenants. */
      readonly tenant: string | undefined
      readonly filter: Omit<ReplayFilter, 'tenantId'>
      readonly ratePerSecond: number
      readonly key: string | undefined
      readonly isDryRun: boolean
    })

/** A request, or the validation error for the caller. */
export type ParsedReplay = ReplayRequest | { readonly verb: 'misused'; readonly text: string }

const verbs = {
  event: { words: 1, options: ['by'] },
  start: {
    words: 0,
    options: [
      ...['tenant', 'all-tenants', 'state', 'provider', 'type', 'from', 'to', 'rate', 'key', 'dry-run', 'by'],
    ],
  },
  status: { words: 1, options: [] },
  list: { words: 0, options: ['tenant', 'limit', 'after'] },
  cancel: { words: 1, options: ['by'] },
} as const satisfies Record<string, { words: number; options: readonly string[] }>
type Verb = keyof typeof verbs

const text = { type: 'string' } as const
const flag = { type: 'boolean' } as const
const options = {
  ...{ tenant: text, state: text, provider: text, type: text, from: text, to: text, rate: text, key: text },
  ...{ limit: text, after: text, by: text, 'all-tenants': flag, 'dry-run': flag, json: flag },
} as const
type Values = ReturnType<typeof parseArgs<{ options: typeof options }>>['values']

const states = ['delivery_failed', 'processed', 'verified', 'any'] as const
const defaultRate = 50
const defaultLimit = 20
const limitMax = 100
const unitsMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** Parses the arguments after `latchkey replay`. Pure. @param nowMs base of relative times */
export function parseReplayRequest(args: readonly string[], nowMs: number): ParsedReplay {
  let parsed: ReturnType<typeof parseArgs<{ options: typeof options; allowPositionals: true }>>
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    return misused(error instanceof Error ? error.message : 'The arguments cannot be read')
  }
  const [verb = '', ...words] = parsed.positionals
  if (!isVerb(verb)) return misused(`Say what to do: ${Object.keys(verbs).join(', ')}`)
  if (words.length !== verbs[verb].words)
    return misused(`${verb} takes ${verbs[verb].words === 0 ? 'nothing' : 'one id'} after it`)
  const allowed: readonly string[] = [...verbs[verb].options, 'json']
  const odd = Object.keys(parsed.values).find((name) => !allowed.includes(name))
  if (odd !== undefined) return misused(`${verb} has no --${odd}`)
  return requestOf(verb, words[0] ?? '', parsed.values, nowMs)
}

function requestOf(verb: Verb, word: string, values: Values, nowMs: number): ParsedReplay {
  const asked = { by: values.by, json: values.json ?? false }
  if (verb === 'start') return startOf(values, asked, nowMs)
  if (verb === 'list') return listOf(values, asked)
  if (verb === 'event') {
    const id = parseEventId(word)
    return id === undefined ? misused('An event’s id is evt_ and 26 characters') : { ...asked, verb, id }
  }
  const id = parseReplayId(word)
  return id === undefined ? misused('A replay’s id is rpl_ and 26 characters') : { ...asked, verb, id }
}

function listOf(values: Values, asked: Asked): ParsedReplay {
  const limit = wholeNumber(values.limit ?? String(defaultLimit), limitMax)
  if (limit === undefined) return misused(`--limit has to be 1 to ${limitMax}`)
  const after = values.after === undefined ? undefined : parseReplayId(values.after)
  if (values.after !== undefined && after === undefined) return misused('--after has to be a replay’s id')
  return { ...asked, verb: 'list', tenant: values.tenant, limit, after }
}

function startOf(values: Values, asked: Asked, nowMs: number): ParsedReplay {
  const { tenant, state = 'delivery_failed', provider, type, from, to, rate, key } = values
  const isForAll = values['all-tenants'] ?? false
  if ((tenant === undefined) === !isForAll) return misused('Say --tenant ID|SLUG, or --all-tenants')
  const known = states.find((each) => each === state)
  if (known === undefined) return misused(`--state has to be one of ${states.join(', ')}`)
  if (provider !== undefined && !providerNames.some((each) => each === provider))
    return misused(`--provider has to be one of ${providerNames.join(', ')}`)
  const fromMs = timeOf(from ?? '', nowMs)
  if (fromMs === undefined) return misused(`--from ${timeHelp}`)
  const toMs = to === undefined ? undefined : timeOf(to, nowMs)
  if (to !== undefined && toMs === undefined) return misused(`--to ${timeHelp}`)
  const ratePerSecond = wholeNumber(rate ?? String(defaultRate), replayRateMax)
  if (ratePerSecond === undefined) return misused(`--rate has to be 1 to ${replayRateMax} events a second`)
  return {
    ...{ ...asked, verb: 'start', tenant, ratePerSecond, key, isDryRun: values['dry-run'] ?? false },
    filter: {
      ...(known !== 'any' && { state: known }),
      ...(provider !== undefined && { provider }),
      ...(type !== undefined && { type }),
      ...{ fromMs, ...(toMs !== undefined && { toMs }) },
    },
  }
}

const timeHelp =
  'has to be a time such as 2026-11-01 or 2026-11-01T08:30:00Z, or how long ago, such as 24h or 7d'
const absolute = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

function timeOf(given: string, nowMs: number): number | undefined {
  const ago = /^(\d{1,6})([mhd])$/.exec(given)
  if (ago) return nowMs - Number(ago[1]) * unitsMs[ago[2] as keyof typeof unitsMs]
  if (!absolute.test(given)) return undefined
  const timeMs = Date.parse(given)
  return Number.isNaN(timeMs) ? undefined : timeMs
}

function wholeNumber(given: string, max: number): number | undefined {
  const value = /^\d{1,9}$/.test(given) ? Number(given) : 0
  return value >= 1 && value <= max ? value : undefined
}

function isVerb(word: string): word is Verb {
  return Object.hasOwn(verbs, word)
}

function misused(why: string): ParsedReplay {
  return { verb: 'misused', text: why }
}
