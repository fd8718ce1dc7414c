import { type CommandUnknownOpts, Option } from '@commander-js/extra-typings'
import { parseEventId } from '#internal/base/index.ts'
import type { RequestBody, RequestQuery } from './api-client.ts'
import { filterOptions } from './contract.ts' with { type: 'macro' }
import { isoTime, parseId, parseProvider, parseType, parseWhole } from './values.ts'

/** Filter of a replay. Only the internal API takes `tenantId`; without it, the filter covers all tenants. */
export type ReplayFilter = RequestBody<'previewReplay'> & { readonly tenantId?: string | undefined }

interface Filters {
  readonly listEvents: RequestQuery<'listEvents'>
  readonly searchPayloads: Omit<RequestBody<'searchPayloads'>, 'from'>
  readonly startReplay: Omit<ReplayFilter, 'from' | 'state'> & {
    readonly state?: ReplayFilter['state'] | 'any'
  }
}

// Frozen, because Bun otherwise inserts the whole result of the macro at each use of the constant.
const optionsOf = Object.freeze(filterOptions())

export const parseReplayId = parseId('rpl', (text) => (/^rpl_[0-9a-z]{26}$/.test(text) ? text : undefined))

/** Parsers of texts that the command checks itself; the API checks all other texts. */
const parsers: Readonly<Record<string, (text: string) => string>> = {
  provider: parseProvider,
  type: parseType,
  id: parseId('evt', parseEventId),
  replayId: parseReplayId,
}

export function withFilters<Command>(
  command: Command & CommandUnknownOpts,
  operation: keyof Filters,
): Command {
  for (const { name, flags, text, choices, bounds } of optionsOf[operation]) {
    const option = new Option(flags, text)
    const parse = bounds ? parseWhole(bounds.minimum, bounds.maximum) : parsers[name]
    if (parse) option.argParser<number | string>(parse)
    if (choices)
      option.choices(operation === 'startReplay' && name === 'state' ? [...choices, 'any'] : choices)
    command.addOption(option)
  }
  return command
}

export function parseFilters<Operation extends keyof Filters>(
  operation: Operation,
  options: object,
): Filters[Operation] {
  const values = new Map<string, unknown>(Object.entries(options))
  return Object.fromEntries(
    optionsOf[operation].map(({ name, flags }) => [name, values.get(new Option(flags).attributeName())]),
  ) as Filters[Operation]
}

/** Returns undefined if the options have neither a start nor an earlier replay. */
export function parseReplayFilter(options: {
  readonly from?: number | undefined
  readonly to?: number | undefined
}): ReplayFilter | undefined {
  const { state: named, ...filters } = parseFilters('startReplay', options)
  const fromMs = options.from ?? (filters.replayId === undefined ? undefined : 0)
  if (fromMs === undefined) return undefined
  const state = named ?? (filters.outcome === 'delivered' ? 'any' : 'delivery_failed')
  return {
    ...filters,
    from: new Date(fromMs).toISOString(),
    to: isoTime(options.to),
    state: state === 'any' ? undefined : state,
  }
}

/** Returns words for all filters except `state`, `replayId` and `outcome`. */
export function filterWords(filter: object): string[] {
  const values = new Map<string, unknown>(Object.entries(filter))
  return optionsOf.startReplay.flatMap(({ name, summary }) => {
    const value = values.get(name)
    if (value === undefined || !summary) return []
    return summary.replace('{ms}', () => `${String(value)} ms`).replace('{}', () => String(value))
  })
}
