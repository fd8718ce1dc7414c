import axe from 'axe-core'
import { type Browser, chromium, type Page } from 'playwright-core'
import { ensureChromium } from '#internal/dev/index.ts'

/** Options of a browser context. */
export interface VisitorOptions {
  readonly width?: number
  readonly height?: number
  /** Device pixels per CSS pixel. Default 1; 2 with half the width is a window at 200 % zoom. */
  readonly scale?: number
  readonly colorScheme?: 'light' | 'dark'
  /** Default true. */
  readonly runsScripts?: boolean
  readonly timezone?: string
}

/** Browser context of one user, with its own cookies. */
export interface Visitor {
  readonly page: Page
  /** Violations of the content policy, script errors and requests to other origins so far. */
  readonly troubles: readonly string[]
  /** Returns the transferred bytes of all responses since the previous call, without open streams. */
  transferredBytes(): Promise<number>
  close(): Promise<void>
}

/** Browser controlled by tests. */
export interface TestBrowser {
  visitor(origin: string, options?: VisitorOptions): Promise<Visitor>
  close(): Promise<void>
}

/** Disables the browser's own background requests. */
const flags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]
const stepMsMax = 15_000

/** Starts a browser with an empty profile. The caller closes it. @throws if none is installed, with the command that installs it */
export async function openBrowser(): Promise<TestBrowser> {
  const executablePath = await ensureChromium((line) => console.error(`> ${line}`))
  const browser = await chromium.launch({ executablePath, args: flags })
  return {
    visitor: (origin, options = {}) => openVisitor(browser, origin, options),
    close: () => browser.close(),
  }
}

async function openVisitor(browser: Browser, origin: string, options: VisitorOptions): Promise<Visitor> {
  const { width = 1_280, height = 900, scale = 1, colorScheme = 'light', runsScripts = true } = options
  const context = await browser.newContext({
    baseURL: origin,
    viewport: { width, height },
    deviceScaleFactor: scale,
    colorScheme,
    javaScriptEnabled: runsScripts,
    timezoneId: options.timezone ?? 'Europe/Berlin',
    locale: 'en-GB',
    // Prevents axe from measuring colors during a transition.
    reducedMotion: 'reduce',
  })
  context.setDefaultTimeout(stepMsMax)
  const page = await context.newPage()
  const troubles: string[] = []
  let sizes: Promise<number>[] = []
  page.on('console', (message) => {
    const text = message.text()
    // Ignores error statuses, which tests expect and the browser logs.
    if (message.type() === 'error' && !text.startsWith('Failed to load resource')) troubles.push(text)
  })
  page.on('pageerror', (error) => troubles.push(`script: ${error.message}`))
  page.on('request', (request) => {
    const url = request.url()
    if (!url.startsWith(origin) && !url.startsWith('data:')) troubles.push(`another origin: ${url}`)
  })
  page.on('requestfinished', (request) => {
    sizes.push(
      request.sizes().then(
        (size) => size.responseBodySize + size.responseHeadersSize,
        () => 0,
      ),
    )
  })
  return {
    page,
    troubles,
    async transferredBytes() {
      const taken = sizes
      sizes = []
      return (await Promise.all(taken)).reduce((sum, bytes) => sum + bytes, 0)
    },
    close: () => context.close(),
  }
}

/** Signs in with a token or an API key on the sign-in page, by the form's request, and opens the requested page. */
export async function signIn(page: Page, token: string, path = '/'): Promise<void> {
  await page.goto('/sign-in')
  const answer = await page.request.post('/sign-in', {
    form: { token, next: path },
    maxRedirects: 0,
    headers: { 'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'navigate' },
  })
  if (answer.status() !== 303) throw new Error(`signing in was answered ${answer.status()}`)
  await page.goto(path)
  await page.locator('.frame').waitFor()
}

/** Finding of axe: rule, severity and place. */
export interface AxeFinding {
  readonly rule: string
  readonly impact: string
  readonly where: string
}

/** Returns axe's serious and critical findings by WCAG 2.2 A and AA and best practices. */
export async function seriousFindings(page: Page): Promise<AxeFinding[]> {
  // Injects the script by the debugger, to which the content policy does not apply.
  if (!(await page.evaluate<boolean>("'axe' in window"))) await page.evaluate(axe.source)
  const violations = await page.evaluate<AxeViolation[]>(
    "axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)",
  )
  return violations
    .filter(({ impact }) => impact === 'serious' || impact === 'critical')
    .flatMap(({ id, impact, nodes }) =>
      nodes.map(({ html, failureSummary }) => ({
        rule: id,
        impact: impact ?? '',
        where: `${html.slice(0, 200)} — ${failureSummary?.slice(0, 300) ?? ''}`,
      })),
    )
}

interface AxeViolation {
  readonly id: string
  readonly impact: string | null
  readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[]
}

/** Returns the elements that make the page scroll sideways, with the pixels by which they exceed the viewport. At most ten. */
export async function sidewaysScrolling(page: Page): Promise<string[]> {
  return await page.evaluate<string[]>(`(() => {
    const width = document.documentElement.clientWidth
    if (document.documentElement.scrollWidth <= width) return []
    const isClipped = (element) => {
      for (let each = element; each !== document.body && each !== null; ) {
        const isAbsolute = getComputedStyle(each).position === 'absolute'
        each = isAbsolute ? each.offsetParent : each.parentElement
        if (each && each !== document.body && getComputedStyle(each).overflowX !== 'visible') return true
      }
      return false
    }
    const beyond = [...document.body.querySelectorAll('*')]
      .map((element) => ({ element, by: Math.round(element.getBoundingClientRect().right - width) }))
      .filter(({ element, by }) => by > 0 && !isClipped(element))
      .map(({ element, by }) => by + ' px too wide: ' + element.outerHTML.slice(0, 120))
    return ['the page scrolls', ...beyond].slice(0, 10)
  })()`)
}
