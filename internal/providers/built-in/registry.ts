import { neutralProviderName } from '#internal/tenants/index.ts'
import type { EventTypes } from '../catalogue.ts'
import type { AnyProvider } from '../provider.ts'
import { card } from './card/provider.ts'
import { cardTypes } from './card/types.ts'
import { codehost } from './codehost/provider.ts'
import { codehostTypes } from './codehost/types.ts'
import { gateway } from './gateway/provider.ts'
import { gatewayTypes } from './gateway/types.ts'
import { generic } from './generic/provider.ts'
import { storefront } from './storefront/provider.ts'
import { storefrontTypes } from './storefront/types.ts'
import { wallet } from './wallet/provider.ts'
import { walletTypes } from './wallet/types.ts'

/** All providers with an adapter. Each has its own folder and one entry here. */
export const providers: readonly AnyProvider[] = [card, generic, storefront, codehost, wallet, gateway]

/** Tables of event types of all providers that have their own types. */
export const eventTables: readonly EventTypes[] = [
  cardTypes,
  storefrontTypes,
  codehostTypes,
  walletTypes,
  gatewayTypes,
]

/** Finds a provider by its neutral or its vendor's name, in lower case. Returns undefined for an unknown name. */
export function findProvider(name: string): AnyProvider | undefined {
  const neutral = neutralProviderName(name)
  return providers.find((each) => each.name === neutral)
}
