import sse from 'htmx.org/dist/ext/hx-sse.min.js' with { type: 'text' }
import htmx from 'htmx.org/dist/htmx.min.js' with { type: 'text' }
import { type StaticBody, staticAnswer, staticBody } from '#internal/http/index.ts'
import browser from './browser.mjs' with { type: 'text' }
import styles from './dashboard.css' with { type: 'text' }
import icon from './icon.svg' with { type: 'text' }
import jump from './jump.mjs' with { type: 'text' }

export const assetsPath = '/assets/:file'
const yearSeconds = 31_536_000
const hashChars = 12

/** Hashes and compresses all assets once. The address of each contains a hash of its content. The assets are embedded in the program, so nothing is read from disk. */
export function createAssets() {
  const files = new Map<
    string,
    {
      readonly type: string
      readonly body: StaticBody
    }
  >()
  const add = (name: string, ending: string, type: string, text: string) => {
    const body = staticBody(text)
    const hash = Buffer.from(Bun.SHA256.hash(body.plain) as Uint8Array)
      .toString('hex')
      .slice(0, hashChars)
    const fileName = `${name}.${hash}.${ending}`
    files.set(fileName, { type, body })
    return assetsPath.replace(':file', fileName)
  }
  return {
    stylesPath: add('dashboard', 'css', 'text/css; charset=utf-8', styles),
    // Joins htmx, its extension for server-sent events and the dashboard's own scripts, so that browsers load them with one request.
    scriptPath: add(
      'dashboard',
      'js',
      'text/javascript; charset=utf-8',
      [htmx, sse, browser, jump].join('\n;'),
    ),
    iconPath: add('icon', 'svg', 'image/svg+xml', icon),
    /** Returns the response for a file. Undefined for an unknown name, such as a file of an older version. */
    find(fileName: string, request: Request) {
      const asset = files.get(fileName)
      return (
        asset &&
        staticAnswer(asset.body, request, {
          headers: {
            'Content-Type': asset.type,
            'Cache-Control': `public, max-age=${yearSeconds}, immutable`,
          },
          outcome: 'asset',
        })
      )
    },
  }
}
