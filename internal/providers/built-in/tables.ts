import cardSamples from '#config/providers/built-in/card/samples.yaml'
import cardRows from '#config/providers/built-in/card/types.yaml'
import codehostSamples from '#config/providers/built-in/codehost/samples.yaml'
import codehostRows from '#config/providers/built-in/codehost/types.yaml'
import gatewaySamples from '#config/providers/built-in/gateway/samples.yaml'
import gatewayRows from '#config/providers/built-in/gateway/types.yaml'
import storefrontSamples from '#config/providers/built-in/storefront/samples.yaml'
import storefrontRows from '#config/providers/built-in/storefront/types.yaml'
import walletSamples from '#config/providers/built-in/wallet/samples.yaml'
import walletRows from '#config/providers/built-in/wallet/types.yaml'
import { eventTypes } from '../catalogue.ts'

/** Tables of event types by provider. A provider without types of its own, such as `generic`, has no table. */
export const eventTables = {
  card: eventTypes('card', cardRows, cardSamples),
  storefront: eventTypes('storefront', storefrontRows, storefrontSamples),
  codehost: eventTypes('codehost', codehostRows, codehostSamples),
  wallet: eventTypes('wallet', walletRows, walletSamples),
  gateway: eventTypes('gateway', gatewayRows, gatewaySamples),
}
