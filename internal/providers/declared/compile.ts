import { type ProviderName, parseProviderName } from '#internal/tenants/index.ts'
import {
  type Provider,
  type ProviderCall,
  type ProviderSettings,
  type Refused,
  refused,
  type Verification,
} from '../provider.ts'
import type { KeyLocation } from '../vendor-keys/published-keys.ts'
import { snsConfirmationUrl } from './aws-sns.ts'
import { CallView, type CountUnits, compilePlace, type HeaderTable, readHeader } from './call.ts'
import { compileEvent, idHeaderNames, signsIdHeader } from './event.ts'
import { compileHandshake } from './handshake.ts'
import { compileHeaders, secretHeaders } from './header-table.ts'
import { hmacHashOf, type SchemeKeys } from './keys.ts'
import type { Declaration } from './schema.ts'
import { type CompiledScheme, compileScheme } from './scheme.ts'
import { verdicts } from './signature.ts'

/**
 * Compiles a valid declaration. All parsing of the declaration happens here; the work for a call is bounded by `workMax`.
 * @param meter counts the work of each call
 * @param trace called with the steps of each verification
 */
export function compileDeclaration(
  declaration: Declaration,
  meter?: CountUnits,
  trace?: CallView['trace'],
): Provider<readonly SchemeKeys[]> {
  const { body: rules, handshakes = [] } = declaration
  const headers = compileHeaders(declaration)
  const idNames = idHeaderNames(declaration, headers)
  const schemes = declaration.signature.schemes.map((each) => compileScheme(each, { headers, idNames }))
  const verify = compileVerify(declaration, headers, schemes)
  const normalize = compileEvent(declaration, headers, schemes)
  const locate = schemes.some((scheme) => scheme.locate) ? compileLocate(schemes) : undefined
  const hmacScheme = declaration.signature.schemes.findIndex(
    ({ algorithm }) => hmacHashOf(algorithm) !== undefined,
  )
  const answers = handshakes.map((each) => compileHandshake(each, { headers, hmacScheme, verify }))
  const isSns = declaration.signature.schemes.some(({ algorithm }) => algorithm === 'aws-sns')
  const view = (call: ProviderCall) => new CallView(call, rules, meter, trace)
  return {
    name: nameOf(declaration),
    bodyBytesMax: rules.bytesMax,
    headers,
    secretHeaders: secretHeaders(declaration, headers),
    answers: declaration.answers,
    prepare: (secrets) => schemes.map((scheme) => scheme.prepare(secrets)),
    verify: (call, keys) => verify(view(call), keys),
    ...(locate && { locate: (call: ProviderCall, keys: readonly SchemeKeys[]) => locate(view(call), keys) }),
    normalize: (call) => normalize(view(call)),
    ...(isSns && { confirmationUrl: (call: ProviderCall) => confirmationUrl(view(call)) }),
    ...(handshakes.length > 0 && {
      handshakes: {
        methods: new Set(handshakes.map(({ method }) => method)),
        answer(call, keys) {
          const own = view(call)
          for (const answer of answers) {
            const answered = answer(own, keys)
            if (answered !== undefined) return answered
          }
          return undefined
        },
      },
    }),
  }
}

function confirmationUrl(view: CallView): string | undefined {
  const body = view.body()
  return body.kind === 'object' ? snsConfirmationUrl(body.value) : undefined
}

function nameOf({ name }: Declaration): ProviderName {
  const parsed = parseProviderName(name)
  if (parsed === undefined) throw new Error(`the declaration has an invalid name: ${name}`)
  return parsed
}

/** Selects the scheme by the call's signature, then runs its check and the check of the account. */
function compileVerify(
  declaration: Declaration,
  headers: HeaderTable,
  schemes: readonly CompiledScheme[],
): (view: CallView, keys: readonly SchemeKeys[]) => Verification {
  const { event, signature, account } = declaration
  const idKeys = event.id.flatMap(({ header = [] }) => header)
  // If a scheme signs a header with the event id, no other header with an event id may have a different value.
  const signsId = signature.schemes.some(({ signs }) => signsIdHeader(signs, idKeys))
  const idHeader = { names: signsId ? idHeaderNames(declaration, headers) : [] }
  const older = { names: signature.schemes.flatMap(({ signature: { olderHeaders = [] } }) => olderHeaders) }
  const isOwnAccount = account && compileAccount(account, headers)
  return (view, keys) => {
    const chosen = chooseScheme(schemes, view)
    if (chosen === 'conflict') return refused('headers_conflict')
    if (signsId && readHeader(view.call.headers, idHeader).kind === 'conflict')
      return refused('headers_conflict')
    if (chosen === undefined) {
      return readHeader(view.call.headers, older).kind !== 'absent' ? verdicts.unknown : verdicts.missing
    }
    view.trace?.({ kind: 'chosen', position: chosen.position, value: chosen.value })
    const own = keys[chosen.position]
    if (own === undefined) return verdicts.mismatch
    const verification = chosen.scheme.verify(view, own, chosen.value)
    if (verification.kind === 'refused' || !isOwnAccount) return verification
    return isOwnAccount(view) ? verification : refused('shop_mismatch')
  }
}

/** Returns undefined for a call to which no scheme applies; `verify` then refuses the call. */
function compileLocate(schemes: readonly CompiledScheme[]) {
  return (view: CallView, keys: readonly SchemeKeys[]): KeyLocation | Refused | undefined => {
    const chosen = chooseScheme(schemes, view)
    if (chosen === undefined || chosen === 'conflict') return undefined
    const own = keys[chosen.position]
    return own && chosen.scheme.locate?.(view, own, chosen.value)
  }
}

interface ChosenScheme {
  readonly scheme: CompiledScheme
  readonly position: number
  readonly value: string
}

/** Selects the first scheme that applies. Returns a conflict if the call has signatures in two places, since either may cover the id. */
function chooseScheme(
  schemes: readonly CompiledScheme[],
  view: CallView,
): ChosenScheme | 'conflict' | undefined {
  let chosen: ChosenScheme | undefined
  for (let position = 0; position < schemes.length; position += 1) {
    const scheme = schemes[position]
    if (scheme === undefined || chosen?.scheme.place === scheme.place) continue
    const reading = scheme.read(view)
    if (reading.kind === 'conflict') return 'conflict'
    if (reading.kind === 'absent' || !scheme.applies(view)) continue
    if (chosen) return 'conflict'
    chosen = { scheme, position, value: reading.value }
  }
  return chosen
}

function compileAccount(
  { setting, ignoreCase = false, ...place }: NonNullable<Declaration['account']>,
  headers: HeaderTable,
) {
  const read = compilePlace(place, headers)
  return (view: CallView): boolean => {
    const own = settingOf(view.call.settings, setting)
    if (own === undefined) return true
    const reading = read(view)
    if (reading.kind !== 'value') return false
    return (ignoreCase ? reading.value.toLowerCase() : reading.value) === own
  }
}

function settingOf(
  settings: ProviderSettings,
  setting: NonNullable<Declaration['account']>['setting'],
): string | undefined {
  switch (setting) {
    case 'storefront.shopDomain':
      return settings.storefront?.shopDomain
  }
}
