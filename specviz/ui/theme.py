"""The page's colours and type: system fonts only, text contrast of at least 4.5 in both themes."""

from __future__ import annotations

import gradio as gr

# Shades around Okabe and Ito's blue #0072B2, which also stands for the target everywhere on the page.
BLUE = gr.themes.Color(
    "#eef6fc",
    "#d6eaf8",
    "#add5f0",
    "#7bbbe5",
    "#3f9ad2",
    "#0072b2",
    "#0067a1",
    "#00568a",
    "#004570",
    "#003557",
    "#00243d",
)


def theme() -> gr.themes.Base:
    """Gradio's base theme with our colours and an 8-pixel rhythm."""
    return gr.themes.Base(
        primary_hue=BLUE,
        secondary_hue=BLUE,
        neutral_hue=gr.themes.colors.slate,
        font=("system-ui", "sans-serif"),
        font_mono=("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"),
        spacing_size=gr.themes.sizes.spacing_md,
        radius_size=gr.themes.sizes.radius_md,
    ).set(
        body_background_fill="white",
        body_background_fill_dark="*neutral_950",
        body_text_color="*neutral_900",
        body_text_color_dark="*neutral_100",
        body_text_color_subdued="*neutral_600",
        body_text_color_subdued_dark="*neutral_400",
        color_accent="*primary_500",
        link_text_color="*primary_600",
        link_text_color_dark="*primary_300",
        block_background_fill="transparent",
        block_background_fill_dark="transparent",
        block_border_width="0px",
        block_border_width_dark="0px",
        block_padding="0px",
        block_shadow="none",
        block_shadow_dark="none",
        block_label_text_color="*neutral_700",
        block_label_text_color_dark="*neutral_300",
        block_title_text_color="*neutral_700",
        block_title_text_color_dark="*neutral_300",
        block_title_text_weight="600",
        block_info_text_color="*neutral_600",
        block_info_text_color_dark="*neutral_400",
        input_background_fill="white",
        input_background_fill_dark="*neutral_900",
        input_border_width="1px",
        input_border_color="*neutral_400",
        input_border_color_dark="*neutral_600",
        input_border_color_focus="*primary_500",
        input_border_color_focus_dark="*primary_400",
        input_placeholder_color="*neutral_500",
        input_placeholder_color_dark="*neutral_400",
        slider_color="*primary_500",
        slider_color_dark="*primary_400",
        button_primary_background_fill="*primary_500",
        button_primary_background_fill_dark="*primary_500",
        button_primary_background_fill_hover="*primary_700",
        button_primary_background_fill_hover_dark="*primary_600",
        button_primary_text_color="white",
        button_primary_text_color_dark="white",
        button_secondary_background_fill="*neutral_100",
        button_secondary_background_fill_dark="*neutral_800",
        button_secondary_background_fill_hover="*neutral_200",
        button_secondary_background_fill_hover_dark="*neutral_700",
        button_secondary_text_color="*neutral_900",
        button_secondary_text_color_dark="*neutral_100",
    )
