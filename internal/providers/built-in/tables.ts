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
import { eventTypes, parseSamples, parseTypeRows } from '../catalogue.ts'

/** Providers without types of their own are absent. */
export const eventTables = {
  card: eventTypes('card', parseTypeRows(cardRows), parseSamples(cardSamples)),
  storefront: eventTypes('storefront', parseTypeRows(storefrontRows), parseSamples(storefrontSamples)),
  codehost: eventTypes('codehost', parseTypeRows(codehostRows), parseSamples(codehostSamples)),
  wallet: eventTypes('wallet', parseTypeRows(walletRows), parseSamples(walletSamples)),
  gateway: eventTypes('gateway', parseTypeRows(gatewayRows), parseSamples(gatewaySamples)),
}
