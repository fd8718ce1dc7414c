import { hideCards } from './redact-cards.ts'

/** What stands in place of a hidden value. */
export const hiddenMark = '[redacted]'
/** What stands in place of what is encoded more often than is looked into, or costs too much to look into. */
export const unreadMark = '[redacted: not looked into]'
const cardMark = '[redacted: card number]'
const keyMark = '[redacted: private key]'
const mailMark = '[redacted: e-mail]'
const tokenMark = '[redacted: token]'

const privateKey =
  /-----BEGIN ([A-Z0-9 ]{0,32})PRIVATE KEY( BLOCK)?-----[^]*?(?:-----END \1PRIVATE KEY\2-----|$)/g
const puttyKey = /PuTTY-User-Key-File-[^]*/g
/** Where a JSON web token may begin; signed or encrypted, its first part is JSON that begins with `{"`. */
const dotted = /[\w.-]+/g
const webToken = /(?<![A-Za-z])eyJ[\w-]{8}/

/** Prefixes by which vendors let their secrets be found (their documentation, 2026-11), each with what follows it. */
const vendorTokens = [
  /(?:[sr]k_(?:live|test)_|shp(?:at|ss|ca|pa|ua|tka)_|gh[pousr]_|github_pat_|dckr_pat_|do[opr]_v1_)[\w]{8,}/,
  /(?:lk_|glpat-|gl(?:ptt|dt|rt|soat)-|xox[abeoprs]-|xapp-|sq0(?:atp|csp)-|tskey-|sk-(?:ant|proj|or)-)[\w-]{8,}/,
  /whsec_[A-Za-z0-9+/_-]{8,}={0,2}/,
  /access_token\$(?:production|sandbox)\$\w+\$\w{8,}/,
  /(?:npm_[A-Za-z0-9]{36}|pypi-[\w-]{16,}|key-[\da-f]{32}|sk-[A-Za-z0-9]{20,}|AIza[\w-]{35}|ATATT[\w=-]{16,})/,
  /(?:ya29\.[\w.-]{16,}|hv[sb]\.[\w-]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9]))/,
  /(?:AGE-SECRET-KEY-1[A-Z0-9]{16,}|[a-z]{2,8}_[A-Za-z0-9]{4,64}_secret_[A-Za-z0-9]{8,})/,
]
const vendorToken = new RegExp(`(?<![A-Za-z])(?:${vendorTokens.map(({ source }) => source).join('|')})`, 'g')
/** URLs that let anybody who knows them post. */
const hookUrl =
  /(hooks\.slack\.com\/(?:services|workflows|triggers)\/|discord(?:app)?\.com\/api\/webhooks\/)[\w/-]{8,}/g

/** Hides what is a token or a private key by its looks, wherever it stands. Linear in the text's length, as all here is. */
export function hideTokens(text: string): string {
  let shown = text
  if (shown.includes('PRIVATE KEY')) shown = shown.replace(privateKey, keyMark)
  if (shown.includes('PuTTY-User-Key')) shown = shown.replace(puttyKey, keyMark)
  if (shown.includes('eyJ')) shown = shown.replace(dotted, hideWebToken)
  shown = shown.replace(vendorToken, tokenMark)
  return shown.includes('/') ? shown.replace(hookUrl, `$1${hiddenMark}`) : shown
}

/** From the first beginning on: what has too few dots behind it there has no more further on. */
function hideWebToken(run: string): string {
  const at = webToken.exec(run)?.index
  if (at === undefined) return run
  const dot = run.indexOf('.', at)
  return dot < 0 || !run.includes('.', dot + 1) ? run : `${run.slice(0, at)}${tokenMark}`
}

/** A scheme of HTTP authentication (IANA registry, 2026-11), or another in use, before its credential. */
const scheme =
  /(?<![A-Za-z])(Bearer|Basic|Token|ApiKey|Negotiate|NTLM|DPoP|GNAP|GoogleLogin|Hawk|Digest|AWS4-HMAC-SHA256)(?:[ \t+]|%20){1,8}/gi
const oneCredential = /[^\s"'<>,;&[\]]{8,}/y
/** These have parameters in place of one text. */
const parameters = /(?:[\w-]{1,32}=[^\r\n]*)/y
const schemesOfMany = /^(?:digest|hawk|aws4-hmac-sha256|googlelogin)$/i

/** The user's part of a URL's authority. Some passwords have slashes and @ in them, which a URL may not; a port has neither. */
const urlPassword = /(:\/\/[^\s@/:?#"'<>]*:)(?!\d{1,5}(?:[/?#\s"'<>,;)]|$))[^\s"'<>]{0,512}@/g
const urlToken = /(:\/\/)[^\s@/:?#"'<>]{16,}@/g

const email = /(?<![\p{L}\p{N}._+'-])[\p{L}\p{N}._+'-]+@(?:[\p{L}\p{N}-]+\.)+[\p{L}]{2,}/gu

/** Hides credentials, passwords in URLs, e-mail addresses and numbers of cards. */
export function hidePersonal(text: string): string {
  let shown = hideCredentials(text)
  if (shown.includes('://'))
    shown = shown.replace(urlPassword, `$1${hiddenMark}@`).replace(urlToken, `$1${hiddenMark}@`)
  if (shown.includes('@')) shown = shown.replace(email, mailMark)
  return hideCards(shown, cardMark)
}

function hideCredentials(text: string): string {
  let shown = ''
  let copiedTo = 0
  scheme.lastIndex = 0
  for (let found = scheme.exec(text); found !== null; found = scheme.exec(text)) {
    const name = found[1] ?? ''
    const start = scheme.lastIndex
    const pattern = schemesOfMany.test(name) ? parameters : oneCredential
    pattern.lastIndex = start
    const credential = pattern.exec(text)?.[0]
    if (credential === undefined || (pattern === oneCredential && !isCredential(name, credential))) continue
    shown += `${text.slice(copiedTo, start)}${hiddenMark}`
    copiedTo = start + credential.length
    scheme.lastIndex = copiedTo
  }
  return shown + text.slice(copiedTo)
}

/** Words of prose follow these words too: "basic subscription", "a token expired". */
function isCredential(name: string, text: string): boolean {
  if (text.startsWith(hiddenMark.slice(0, -1))) return false
  if (name.toLowerCase() === 'basic') return Buffer.from(text, 'base64').includes(58)
  if (name.toLowerCase() === 'bearer' && text.length >= 16) return true
  return text.length >= 24 || /\d/.test(text) || (/[a-z]/.test(text) && /[A-Z]/.test(text.slice(1)))
}
