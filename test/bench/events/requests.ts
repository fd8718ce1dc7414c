import { createEventId, type EventId, type TenantId } from '#internal/base/index.ts'
import type { EventListRequest, EventSummary, StatusFilter } from '#internal/events/index.ts'

/** Kind of list; each call makes another request of it. */
export interface ListCase {
  readonly name: string
  readonly request: (random: Random) => Omit<EventListRequest, 'limit'>
}

/** Returns a number from 0 (inclusive) to 1 (exclusive). */
export type Random = () => number

/** Values for requests. */
export interface CaseParts {
  /** Largest first. */
  readonly tenantIds: readonly TenantId[]
  /** Existing events, of all days. */
  readonly known: readonly EventSummary[]
  readonly nowMs: number
}

const dayMs = 86_400_000
const hourMs = 3_600_000
const keptDays = 90
const nobody = 'ten_00000000000000000000000000' as TenantId
const commonTypes = ['payment.succeeded', 'order.created', 'order.updated']
const rareTypes = ['chargeback.won', 'chargeback.lost', 'chargeback.evidence_required']
const usualProviders = ['card', 'storefront', 'generic', 'codehost']

/** Creates a seeded random generator: mulberry32. */
export function seededRandom(seed: number): Random {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** Lists the measured kinds: each filter, combinations, rare values, empty results and deep pages. */
export function listCases(parts: CaseParts): readonly ListCase[] {
  return [
    ...singleFilters(parts),
    ...combinations(parts),
    ...timeRanges(parts),
    ...deepPages(parts),
    ...nothing(parts),
  ]
}

const pick = <T>(of: readonly T[], random: Random): T => {
  const found = of[Math.floor(random() * of.length)]
  if (found === undefined) throw new RangeError('nothing to pick from')
  return found
}

function singleFilters({ tenantIds, known }: CaseParts): ListCase[] {
  const all = (state: NonNullable<EventListRequest['state']>): ListCase => ({
    name: `state ${state}`,
    request: () => ({ state }),
  })
  return [
    { name: 'all', request: () => ({}) },
    { name: 'a large tenant', request: (random) => ({ tenantId: pick(tenantIds.slice(0, 3), random) }) },
    { name: 'a small tenant', request: (random) => ({ tenantId: pick(tenantIds.slice(-3), random) }) },
    { name: 'a provider', request: (random) => ({ provider: pick(usualProviders, random) }) },
    { name: 'a rare provider', request: () => ({ provider: 'gateway' }) },
    { name: 'a type', request: (random) => ({ type: pick(commonTypes, random) }) },
    { name: 'a rare type', request: (random) => ({ type: pick(rareTypes, random) }) },
    { name: 'a family of types', request: () => ({ type: 'payment.*' }) },
    { name: 'a status that failed', request: () => ({ status: '5xx' as StatusFilter }) },
    { name: 'a status that no event has', request: () => ({ status: '404' as StatusFilter }) },
    {
      name: 'a status of a success, tenant',
      request: (random) => ({ tenantId: pick(tenantIds, random), status: '2xx' as StatusFilter }),
    },
    { name: 'slower attempts than any', request: () => ({ slowerThanMs: 1_000 }) },
    {
      name: 'a provider’s id in all tenants',
      request: (random) => ({
        sourceEventId: pick(known, random).sourceEventId,
        sourceTenants: tenantIds.map((id) => ({ id, declaredProviders: [] })),
      }),
    },
    ...(['processed', 'delivery_failed', 'accepted', 'verified'] as const).map(all),
    { name: 'an id', request: (random) => ({ id: pick(known, random).id }) },
    {
      name: 'a provider’s id',
      request: (random) => {
        const { tenantId, sourceEventId } = pick(known, random)
        return { tenantId, sourceEventId }
      },
    },
  ]
}

function combinations({ tenantIds }: CaseParts): ListCase[] {
  const tenant = (random: Random) => ({ tenantId: pick(tenantIds, random) })
  const type = (random: Random) => ({ type: pick([...commonTypes, ...rareTypes], random) })
  const provider = (random: Random) => ({ provider: pick(usualProviders, random) })
  const failed = { state: 'delivery_failed' } as const
  return [
    { name: 'tenant, type', request: (random) => ({ ...tenant(random), ...type(random) }) },
    { name: 'tenant, provider', request: (random) => ({ ...tenant(random), ...provider(random) }) },
    { name: 'tenant, failed', request: (random) => ({ ...tenant(random), ...failed }) },
    { name: 'tenant, processed', request: (random) => ({ ...tenant(random), state: 'processed' }) },
    { name: 'tenant, accepted', request: (random) => ({ ...tenant(random), state: 'accepted' }) },
    { name: 'tenant, verified', request: (random) => ({ ...tenant(random), state: 'verified' }) },
    { name: 'provider, type', request: (random) => ({ ...provider(random), ...type(random) }) },
    { name: 'provider, failed', request: (random) => ({ ...provider(random), ...failed }) },
    { name: 'type, failed', request: (random) => ({ ...type(random), ...failed }) },
    {
      name: 'rare type, rare provider',
      request: (random) => ({ type: pick(rareTypes, random), provider: 'gateway' }),
    },
    {
      name: 'tenant, provider, type',
      request: (random) => ({ ...tenant(random), ...provider(random), ...type(random) }),
    },
    {
      name: 'tenant, provider, type, failed',
      request: (random) => ({ ...tenant(random), ...provider(random), ...type(random), ...failed }),
    },
  ]
}

function timeRanges({ tenantIds, nowMs }: CaseParts): ListCase[] {
  const within = (random: Random, lengthMs: number) => {
    const fromMs = nowMs - Math.floor(random() * keptDays * dayMs)
    return { fromMs, toMs: fromMs + lengthMs }
  }
  const tenant = (random: Random) => ({ tenantId: pick(tenantIds, random) })
  const failed = { state: 'delivery_failed' } as const
  return [
    { name: 'an hour', request: (random) => within(random, hourMs) },
    { name: 'a week', request: (random) => within(random, 7 * dayMs) },
    { name: 'an hour, tenant', request: (random) => ({ ...within(random, hourMs), ...tenant(random) }) },
    {
      name: 'a week, rare type',
      request: (random) => ({ ...within(random, 7 * dayMs), type: pick(rareTypes, random) }),
    },
    { name: 'a week, failed', request: (random) => ({ ...within(random, 7 * dayMs), ...failed }) },
    {
      name: 'a day, tenant, provider, failed',
      request: (random) => ({ ...within(random, dayMs), ...tenant(random), provider: 'card', ...failed }),
    },
    { name: 'until a time', request: (random) => ({ toMs: within(random, 0).toMs }) },
  ]
}

function deepPages({ tenantIds, nowMs }: CaseParts): ListCase[] {
  const after = (random: Random): Pick<EventListRequest, 'after'> => {
    const id: EventId = createEventId(nowMs - Math.floor(random() * keptDays * dayMs), keptDays)
    return { after: id }
  }
  const tenant = (random: Random) => ({ tenantId: pick(tenantIds, random) })
  return [
    { name: 'deep', request: after },
    { name: 'deep, tenant', request: (random) => ({ ...after(random), ...tenant(random) }) },
    { name: 'deep, rare type', request: (random) => ({ ...after(random), type: pick(rareTypes, random) }) },
    { name: 'deep, failed', request: (random) => ({ ...after(random), state: 'delivery_failed' }) },
    {
      name: 'deep, tenant, provider, processed',
      request: (random) => ({ ...after(random), ...tenant(random), provider: 'card', state: 'processed' }),
    },
  ]
}

function nothing({ tenantIds, nowMs }: CaseParts): ListCase[] {
  const smallest = tenantIds.slice(-1)
  return [
    { name: 'none: tenant', request: () => ({ tenantId: nobody }) },
    { name: 'none: type', request: () => ({ type: 'no.such_type' }) },
    { name: 'none: provider', request: () => ({ provider: 'nobody' }) },
    { name: 'none: future', request: () => ({ fromMs: nowMs + 2 * dayMs }) },
    { name: 'none: expired', request: () => ({ toMs: nowMs - 200 * dayMs }) },
    {
      name: 'none: small tenant, rare type, rare provider',
      request: (random) => ({
        tenantId: pick(smallest, random),
        type: pick(rareTypes, random),
        provider: 'gateway',
      }),
    },
    {
      name: 'none: provider, type, failed',
      request: (random) => ({ provider: 'gateway', type: pick(rareTypes, random), state: 'delivery_failed' }),
    },
  ]
}
