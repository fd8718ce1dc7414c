import type { Config } from '#internal/config/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'

/** The platform's bounds on callbacks, from the settings. Unset: public addresses alone. */
export function callbackBoundsOf({
  callbackCidrsMax = [],
  callbackPorts = [],
}: Pick<Config<'forwarder'>, 'callbackCidrsMax' | 'callbackPorts'>): CallbackBounds {
  return { cidrsMax: callbackCidrsMax, ports: callbackPorts }
}
