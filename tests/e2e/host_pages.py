"""Pages of other sites, as people have them, with the README's two lines pasted in."""

from __future__ import annotations

HOSTS = {
    "bare": "{chat}",
    "block": """
        <style>
          body {{ margin: 0 }}
          evenflow-chat {{ display: block; height: 100dvh }}
        </style>{chat}""",
    "article": "<h1>A shop</h1><p>It sells coats.</p>{chat}<p>And hats.</p>",
    "flex": """
        <style>
          html, body {{ height: 100%; margin: 0 }}
          body {{ display: flex; flex-direction: column }}
        </style>
        <h1>A shop</h1>{chat}""",
    "grid": """
        <style>
          body {{
            display: grid; grid-template: auto 1fr / minmax(0, 1fr); height: 100dvh; margin: 0;
          }}
        </style>
        <h1>A shop</h1>{chat}""",
    "fixed": '<h1>A shop</h1><div style="height: 25rem">{chat}</div>',
    "text": """
        <style>
          body {{
            cursor: wait; font: italic small-caps 900 2rem/3 serif; letter-spacing: 0.3em;
            list-style: square; text-align: center; text-indent: 3em; text-shadow: 0 0 4px red;
            text-transform: uppercase; user-select: none; white-space: nowrap;
            word-break: break-all; word-spacing: 1em;
          }}
        </style>{chat}""",
    # The styles of `npm create vite` for React.
    "vite": """
        <style>
          :root {{
            font-family: system-ui, Avenir, Helvetica, Arial, sans-serif; line-height: 1.5;
            font-weight: 400; color-scheme: light dark; color: rgba(255, 255, 255, 0.87);
            background-color: #242424; font-synthesis: none;
            text-rendering: optimizeLegibility; -webkit-font-smoothing: antialiased;
          }}
          body {{
            margin: 0; display: flex; place-items: center; min-width: 320px; min-height: 100vh;
          }}
          h1 {{ font-size: 3.2em; line-height: 1.1 }}
          #root {{ max-width: 1280px; margin: 0 auto; padding: 2rem; text-align: center }}
          @media (prefers-color-scheme: light) {{
            :root {{ color: #213547; background-color: #ffffff }}
          }}
        </style>
        <div id="root">{chat}</div>""",
    # Those of `npx create-next-app`.
    "next": """
        <style>
          :root {{ --background: #ffffff; --foreground: #171717 }}
          @media (prefers-color-scheme: dark) {{
            :root {{ --background: #0a0a0a; --foreground: #ededed }}
          }}
          html {{ height: 100% }}
          html, body {{ max-width: 100vw; overflow-x: hidden }}
          body {{
            min-height: 100%; display: flex; flex-direction: column;
            color: var(--foreground); background: var(--background);
            font-family: Arial, Helvetica, sans-serif;
          }}
          * {{ box-sizing: border-box; padding: 0; margin: 0 }}
          a {{ color: inherit; text-decoration: none }}
          @media (prefers-color-scheme: dark) {{ html {{ color-scheme: dark }} }}
        </style>
        <main>{chat}</main>""",
}
"""Styles of pages, with `{chat}` where the lines are pasted."""
