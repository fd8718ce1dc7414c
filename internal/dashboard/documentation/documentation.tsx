import {
  type Answer,
  type AnswerBody,
  acceptsGzip,
  type Call,
  type PublicRoute,
} from '#internal/http/index.ts'
import { securityHeaders } from '../render.tsx'
import type { Answered } from '../session.tsx'
import { type SiteFile, unpackSite } from './archive.ts'
import { PlainContents } from './plain-contents.ts'

/** Path of the documentation in the dashboard. */
export const documentationPath = '/docs/'
const yearSeconds = 31_536_000

const types: Readonly<Record<string, string>> = {
  css: 'text/css; charset=utf-8',
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  json: 'application/json',
  png: 'image/png',
  svg: 'image/svg+xml',
}

type Site = ReadonlyMap<string, SiteFile>

/**
 * Creates the routes of the documentation site, which needs no sign-in. The first request reads the site from an archive in the program.
 * Without the archive, as in a clone before `npm run docs`, `answerMissing` answers.
 */
export function documentationRoutes(
  answerMissing: (call: Call) => Promise<Answered>,
  loadSite: () => Promise<Site | undefined> = loadOwnSite,
): readonly PublicRoute[] {
  const contents = new PlainContents()
  let loading: Promise<Site | undefined> | undefined
  const load = async () => {
    loading ??= loadSite()
    try {
      return await loading
    } catch (error) {
      // Forgets the failed read, so that the next request reads the archive again.
      loading = undefined
      throw error
    }
  }
  const route = (path: string): PublicRoute => ({
    access: 'public',
    method: 'GET',
    path,
    bodyBytesMax: 0,
    async handle(call) {
      const { request } = call
      const site = await load()
      const { pathname } = new URL(request.url)
      if (pathname === documentationPath.slice(0, -1)) return redirected(documentationPath)
      if (site === undefined) return answerMissing(call)
      return answerFrom({ site, contents }, pathname.slice(documentationPath.length), request)
    },
  })
  return [route(documentationPath.slice(0, -1)), route(documentationPath), route(`${documentationPath}*`)]
}

/** Reads the archive that is compiled into the program, or the one in the clone. Returns undefined if there is none. */
async function loadOwnSite(): Promise<Site | undefined> {
  const path = await findArchive()
  if (path === undefined) return undefined
  // In the npm package, the path is relative to this module.
  const file = Bun.file(path.startsWith('.') ? new URL(path, import.meta.url) : path)
  return unpackSite(new Uint8Array(await file.arrayBuffer()))
}

async function findArchive(): Promise<string | undefined> {
  try {
    const { default: path } = await import('#built/docs/site.bin', { with: { type: 'file' } })
    return path
  } catch {
    // The archive was not built. The bundler accepts a missing module only in an `import()` inside `try`.
    return undefined
  }
}

interface Files {
  readonly site: Site
  readonly contents: PlainContents
}

async function answerFrom(files: Files, path: string, request: Request): Promise<Answer<AnswerBody>> {
  const { site } = files
  const name = path === '' || path.endsWith('/') ? `${path}index.html` : path
  const file = site.get(name) ?? site.get(`${name}.html`)
  if (file) return answerFile(files, { file, status: 200 }, request)
  if (site.has(`${path}/index.html`)) return redirected(`${documentationPath}${path}/`)
  const unknown = site.get('404.html')
  return unknown ? answerFile(files, { file: unknown, status: 404 }, request) : redirected(documentationPath)
}

async function answerFile(
  { contents }: Files,
  { file, status }: { readonly file: SiteFile; readonly status: 200 | 404 },
  request: Request,
): Promise<Answer<AnswerBody>> {
  const { path, etag, gzipped } = file
  const isHashed = path.startsWith('assets/')
  const headers = {
    ...securityHeaders,
    'Content-Type': types[path.slice(path.lastIndexOf('.') + 1)] ?? 'text/plain; charset=utf-8',
    'Cache-Control': isHashed ? `public, max-age=${yearSeconds}, immutable` : 'no-cache',
    Vary: 'Accept-Encoding',
    ETag: etag,
  }
  if (status === 200 && request.headers.get('if-none-match')?.includes(etag))
    return { kind: 'answer', status: 304, outcome: 'not_modified', body: '', headers }
  const isGzip = acceptsGzip(request.headers.get('accept-encoding'))
  return {
    kind: 'answer',
    status,
    outcome: status === 200 ? 'documentation' : 'not_found',
    body: isGzip ? gzipped : await contents.of(file),
    headers: { ...headers, ...(isGzip && { 'Content-Encoding': 'gzip' }) },
  }
}

function redirected(location: string): Answer<AnswerBody> {
  return {
    kind: 'answer',
    status: 308,
    outcome: 'redirect',
    body: '',
    headers: { ...securityHeaders, 'Content-Type': 'text/plain; charset=utf-8', Location: location },
  }
}
