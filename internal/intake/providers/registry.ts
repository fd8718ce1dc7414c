import { neutralProviderName } from '#internal/tenants/index.ts'
import type { AnyProvider } from '../provider.ts'
import { card } from './card/provider.ts'
import { codehost } from './codehost/provider.ts'
import { gateway } from './gateway/provider.ts'
import { generic } from './generic/provider.ts'
import { storefront } from './storefront/provider.ts'
import { wallet } from './wallet/provider.ts'

/** Every provider that has an adapter: one folder each, one line here. */
export const providers: readonly AnyProvider[] = [card, storefront, codehost, generic, wallet, gateway]

/**
 * Finds a provider by its neutral or its vendor's name, in lower case as paths have it. Gives undefined for a name that
 * nobody knows.
 */
export function findProvider(name: string): AnyProvider | undefined {
  const neutral = neutralProviderName(name)
  return providers.find((each) => each.name === neutral)
}

/** Lowercase names of the headers that carry some provider's signature: never stored or forwarded, whoever called. */
export const secretHeaders: ReadonlySet<string> = new Set(providers.flatMap((each) => each.secretHeaders))
