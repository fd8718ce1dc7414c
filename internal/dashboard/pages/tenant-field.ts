import type { Field } from '../components/form.tsx'
import type { PageContext } from '../page.ts'

/** The filter for a tenant, by slug, id or name with namespace; none for a tenant's own key, which has no choice. */
export function tenantFields({ actor, tenant }: PageContext): readonly Field[] {
  if (actor.kind === 'tenantKey') return []
  const value = tenant && (tenant.slug ?? `${tenant.namespace}/${tenant.name}`)
  return [{ kind: 'text', name: 'tenant', label: 'Tenant', value, placeholder: 'All', charsMax: 200 }]
}
