import { type Verdict, verdict } from './conditions.ts'
import type { ResourceName, TenantFacts } from './facts.ts'

/** The slug that a tenant gets, null for none yet, and why. */
export interface SlugPlan {
  readonly slug: string | null
  readonly verdict: Verdict
}

/**
 * Who holds a slug keeps it. A free one goes to the resource that it is reserved for, else to the oldest claimant. Pure.
 */
export function planSlug(facts: TenantFacts, now: number): SlugPlan {
  const wanted = facts.manifest.spec.slug
  const held = facts.stored?.deletedAtMs === null ? facts.stored.slug : null
  if (held !== null && held !== wanted) {
    return denied(
      held,
      'SlugImmutable',
      `spec.slug cannot change: ${held} stays in force; set it back, or delete this Tenant and create another`,
    )
  }
  if (held === null) {
    const { holder, reservation, olderClaimant } = facts.slug
    if (holder !== undefined && holder.id !== facts.tenantId) {
      return denied(
        null,
        'SlugTaken',
        `${wanted} belongs to ${shown(holder, facts)}: choose another spec.slug`,
      )
    }
    const kept = reservation !== undefined && reservation.untilMs > now ? reservation : undefined
    if (kept !== undefined && !isSame(kept, facts.manifest)) {
      const until = new Date(kept.untilMs).toISOString()
      return denied(
        null,
        'SlugKept',
        `${wanted} is kept for ${shown(kept, facts)} until ${until}: choose another`,
      )
    }
    // Whoever waits for a slug that is kept is refused it however old: if both gave way, nobody would ever have it.
    if (kept === undefined && olderClaimant !== undefined) {
      return denied(
        null,
        'SlugAwaited',
        `${shown(olderClaimant, facts)} is older and waits for ${wanted}: choose another`,
      )
    }
  }
  return {
    slug: wanted,
    verdict: verdict('SlugReserved', [], { reason: 'Held', message: `${wanted} is this tenant's` }),
  }
}

function denied(slug: string | null, reason: string, message: string): SlugPlan {
  return { slug, verdict: { type: 'SlugReserved', status: 'False', reason, message } }
}

/** Who else it is, as far as whoever reads this Tenant may know: what there is in other namespaces is not for them. */
function shown({ namespace, name }: ResourceName, { manifest }: TenantFacts): string {
  return namespace === manifest.namespace ? `${namespace}/${name}` : 'a tenant of another namespace'
}

function isSame(one: ResourceName, other: ResourceName): boolean {
  return one.namespace === other.namespace && one.name === other.name
}
