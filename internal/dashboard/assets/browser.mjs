// Progressive enhancement: the browser's time zone, copy buttons and chart values on hover. The block keeps its variables out of the scope of
// the other bundled scripts.
{
  // The server shows and reads all times in the zone of this cookie, from the next page on.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone
  if (zone && !document.cookie.split('; ').includes(`latchkey-zone=${zone}`)) {
    const isSecure = location.protocol === 'https:' ? '; Secure' : ''
    document.cookie = `latchkey-zone=${zone}; Path=/; Max-Age=31536000; SameSite=Lax${isSecure}`
  }
  const pointTime = new Intl.DateTimeFormat('en-GB', {
    ...{ month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' },
    timeZone: document.documentElement.dataset.zone,
  })

  const enableCopying = () => {
    for (const button of document.querySelectorAll('button[data-copy]')) button.hidden = !navigator.clipboard
  }

  const copy = async (button) => {
    const said = button.querySelector('[data-said]')
    try {
      await navigator.clipboard.writeText(button.dataset.copy)
      said.textContent = 'Copied'
      button.classList.add('is-copied')
    } catch {
      said.textContent = 'Select and copy it'
    }
    setTimeout(() => {
      said.textContent = button.title
      button.classList.remove('is-copied')
    }, 1500)
  }

  const readOut = (event) => {
    const drawing = event.target.closest?.('svg[data-points]')
    for (const band of document.querySelectorAll('[data-band]:not([width="0"])'))
      if (band.ownerSVGElement !== drawing) rest(band.ownerSVGElement)
    if (!drawing) return
    const points = drawing.dataset.points.split('\n')
    const { left, width } = drawing.getBoundingClientRect()
    const nth = Math.max(
      0,
      Math.min(points.length - 1, Math.floor(((event.clientX - left) / width) * points.length)),
    )
    const band = drawing.querySelector('[data-band]')
    band.setAttribute('x', String((1000 * nth) / points.length))
    band.setAttribute('width', String(1000 / points.length))
    const output = drawing.closest('figure').querySelector('[data-readout]')
    output.dataset.rest ??= output.textContent
    const at = new Date(Number(drawing.dataset.from) + nth * Number(drawing.dataset.step))
    output.textContent = `${pointTime.format(at)}  ·  ${points[nth]}`
  }

  const rest = (drawing) => {
    drawing.querySelector('[data-band]').setAttribute('width', '0')
    const output = drawing.closest('figure').querySelector('[data-readout]')
    if (output.dataset.rest !== undefined) output.textContent = output.dataset.rest
    delete output.dataset.rest
  }

  document.addEventListener('click', (event) => {
    const button = event.target.closest?.('button[data-copy]')
    if (button) void copy(button)
  })
  document.addEventListener('pointermove', readOut)

  enableCopying()

  // The dev server prints the sign-in address with its token in the fragment, because browsers do not send fragments to servers.
  const token = document.querySelector('input[name=token]')
  if (token && location.hash.startsWith('#token=')) {
    token.value = decodeURIComponent(location.hash.slice(7))
    history.replaceState(null, '', location.pathname + location.search)
  }

  document.addEventListener('htmx:after:swap', enableCopying)
  // Status 401 means that the session has ended. Reloading the page leads to the sign-in page.
  document.addEventListener('htmx:sse:error', (event) => {
    if (event.detail?.status === 401) location.reload()
  })
}
