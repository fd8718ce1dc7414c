import { neutralProviderName, type ProviderName } from '#internal/tenants/index.ts'
import { invalid, type Outcome, ok } from './outcome.ts'

/** Which provider is meant by a neutral name or a vendor's, if one is; a refusal for a name that nobody has. */
export function providerOf({
  provider,
}: {
  readonly provider?: string | undefined
}): Outcome<ProviderName | undefined> {
  const name = provider === undefined ? undefined : neutralProviderName(provider)
  return provider !== undefined && name === undefined ? invalid('There is no such provider') : ok(name)
}
