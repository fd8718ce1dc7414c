import type { TenantSpec } from './model.ts'

/** Where one provider calls. */
export interface WebhookUrl {
  readonly provider: string
  readonly url: string
}

/**
 * The URLs to hand to a tenant's providers, of those that are enabled; none while it has no slug. Pure.
 * @param publicUrl what stands before `/v1/t/…`; without it they are paths
 */
export function webhookUrls(
  slug: string | null,
  { providers }: Pick<TenantSpec, 'providers'>,
  publicUrl = '',
): readonly WebhookUrl[] {
  if (slug === null) return []
  const base = publicUrl.replace(/\/+$/, '')
  return providers
    .filter(({ enabled }) => enabled)
    .map(({ name }) => ({ provider: name, url: `${base}/v1/t/${slug}/webhooks/${name}` }))
}
