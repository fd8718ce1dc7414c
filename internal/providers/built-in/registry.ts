import { neutralProviderName } from '#internal/tenants/index.ts'
import type { AnyProvider } from '../provider.ts'
import { card, codehost, generic, storefront } from './declarations.ts'
import { gateway } from './gateway/provider.ts'
import { wallet } from './wallet/provider.ts'

/** All providers with an adapter. */
export const providers: readonly AnyProvider[] = [card, generic, storefront, codehost, wallet, gateway]

/** Finds a provider by its neutral or its vendor's name in lower case. */
export function findProvider(name: string): AnyProvider | undefined {
  const neutral = neutralProviderName(name)
  return providers.find((each) => each.name === neutral)
}
